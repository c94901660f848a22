"""The entry point: a copy of ``run`` with a stand-in for Python that only logs its calls."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import ModuleType

import pytest

import perftrend

CHECKOUT = Path(__file__).resolve().parents[2]

# Answers as python3 does, makes environments that hold itself, and logs pip's and the jobs' calls.
STAND_IN = """#!/bin/sh
log=@HOME@/log
for last; do :; done
case "$*" in
*nearest*) exit 1 ;;
"-P -c"*) exit 0 ;;
"-P -m venv"*) mkdir -p "$5/bin"; rm -f "$5"/*.half; cp "$0" "$5/bin/python"; echo venv >>"$log" ;;
"-P -m pip"*"${FAIL_ON-nothing}"*) exit 1 ;;
"-P -m pip download"*) exit "${UNREACHABLE-0}" ;;
"-P -m perftrend.analysis.mdl") echo compile >>"$log" ;;
"-P -m pip"*) touch "${0%/bin/python}/pip.half"; sleep "${PIP_SLEEP-0}"; echo "pip $last" >>"$log" ;;
*) echo "job $*" >>"$log"; pwd; kill -s "${SIGNAL-0}" $$; exit "${STATUS-0}" ;;
esac
"""

TOOLS = "cat cksum cp dirname env flock grep head id ls mkdir mv paste readlink rm sed sh sleep touch tr true"


class Checkout:
    """A copy of the checkout's outside, and a machine with few programs."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.top = home / "check out"
        (self.top / "jobs").mkdir(parents=True)
        for name in ("run", "setup.cfg", "pyproject.toml", "constraints.txt"):
            shutil.copy(CHECKOUT / name, self.top)
        for name in ("trending", "analysis"):
            self.job(name)
        package = Path("resources/perftrend/__init__.py")
        (self.top / package).parent.mkdir(parents=True)
        shutil.copy(CHECKOUT / package, self.top / package)
        self.bin = home / "bin"
        self.bin.mkdir()
        for tool in TOOLS.split():
            (self.bin / tool).symlink_to(shutil.which(tool) or "/nowhere")
        for program in ("git", "ip", "nft", "ethtool", "bwrap"):
            self.program(program, "#!/bin/sh\n")
        self.program("python3", STAND_IN.replace("@HOME@", str(home)))

    def job(self, name: str) -> None:
        """Add a job with the help that belongs to it."""
        (self.top / "jobs" / f"{name}.py").write_text(f'"""The {name} job."""\n')
        (self.top / "docs/help").mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / "docs/help" / f"{name}.txt", self.top / "docs/help")

    def files(self) -> set[Path]:
        """Return all files of the checkout."""
        return {path for path in self.top.rglob("*") if path.is_file()}

    def program(self, name: str, text: str) -> None:
        # Never through a link: it leads to the machine's own program.
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        # The machine's own folders of programs would make "missing" a matter of the machine.
        script = (self.top / "run").read_text().replace(":/usr/sbin:/sbin", "")
        (self.top / "run").write_text(script)
        return subprocess.Popen(
            [self.top / "run", *arguments],
            cwd=self.home,
            env={"PATH": str(self.bin), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    @property
    def log(self) -> list[str]:
        """What Python was asked since the last look."""
        log = self.home / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


MADE = ["venv", "pip pbr"]


def test_alone_it_lists_the_jobs_without_making_anything(checkout: Checkout) -> None:
    code, out, err = checkout.run()

    assert (0, "") == (code, err)
    assert "analysis      The analysis job." in out
    assert "trending      The trending job." in out
    assert [] == checkout.log


@pytest.mark.parametrize("word", ["trendin", "../trending", "__init__", "-x", "--x", "trending.py", "a b"])
def test_unknown_job_is_refused_by_name(checkout: Checkout, word: str) -> None:
    code, out, err = checkout.run(word)

    assert (2, "") == (code, out)
    assert f"perftrend: no job is named '{word}'; known are analysis, trending\n" == err
    assert [] == checkout.log


def test_unknown_job_is_answered_with_the_nearest() -> None:
    run = subprocess.run([CHECKOUT / "run", "test"], capture_output=True, text=True, check=False)

    assert (2, "perftrend: no job is named 'test'; did you mean 'tests'?\n") == (run.returncode, run.stderr)


def test_first_start_makes_the_environment_and_the_second_does_not(checkout: Checkout) -> None:
    checkout.run("trending", "--tags", "a b")
    assert [
        *MADE,
        f"pip {checkout.top}",
        "compile",
        "job -P -m jobs.trending --tags a b",
    ] == checkout.log

    _, _, err = checkout.run("trending")
    assert ["job -P -m jobs.trending"] == checkout.log
    assert "" == err


def test_job_works_in_the_folder_of_its_caller(checkout: Checkout) -> None:
    _, out, _ = checkout.run("trending")

    assert f"{checkout.home}\n" == out


def test_called_by_a_symbolic_link_it_finds_its_checkout(checkout: Checkout) -> None:
    link = checkout.home / "link"
    link.symlink_to(checkout.top / "run")

    run = subprocess.run([link], env={"PATH": str(checkout.bin)}, capture_output=True, text=True, check=False)

    assert "The trending job." in run.stdout


def test_exit_code_of_the_job_passes_through(checkout: Checkout) -> None:
    code, _, _ = checkout.run("trending", STATUS="4")

    assert 4 == code


def test_signal_reaches_the_job_itself(checkout: Checkout) -> None:
    code, _, _ = checkout.run("trending", SIGNAL="TERM")

    assert -signal.SIGTERM == code


@pytest.mark.parametrize("name", ["setup.cfg", "constraints.txt", "pyproject.toml"])
def test_changed_pins_refresh_the_environment(checkout: Checkout, name: str) -> None:
    checkout.run("trending")
    _ = checkout.log
    with (checkout.top / name).open("a") as file:
        file.write("\n# more\n")

    checkout.run("trending")

    assert ["pip pbr", f"pip {checkout.top}", "compile", "job -P -m jobs.trending"] == checkout.log


def test_file_that_names_another_environment_makes_room(checkout: Checkout) -> None:
    """Tools that heed PEP 832 leave it."""
    (checkout.top / ".venv").write_text(".tox/unit\n")

    assert 0 == checkout.run("trending")[0]
    assert [*MADE, f"pip {checkout.top}", "compile", "job -P -m jobs.trending"] == checkout.log


def test_moved_checkout_makes_its_environment_again(checkout: Checkout) -> None:
    checkout.run("trending")
    _ = checkout.log
    checkout.top = checkout.top.rename(checkout.home / "elsewhere")

    checkout.run("trending")

    assert MADE == checkout.log[:2]


def test_failed_pip_is_reported_and_tried_again(checkout: Checkout) -> None:
    code, _, err = checkout.run("trending", FAIL_ON="--editable")
    assert 2 == code
    assert "perftrend: pip could not install" in err
    assert MADE == checkout.log

    code, _, _ = checkout.run("trending")
    assert 0 == code


def test_git_is_stopped_by_a_start_that_fails(checkout: Checkout) -> None:
    """It would take the usual code for a verdict on the commit."""
    checkout.job("bisectrun")

    code, _, err = checkout.run("bisectrun", FAIL_ON="--editable")

    assert (202, True) == (code, "perftrend: pip could not install" in err)
    assert MADE == checkout.log[:2]


@pytest.mark.parametrize("refreshed", [False, True])
def test_killed_in_the_middle_it_begins_anew(checkout: Checkout, refreshed: bool) -> None:
    if refreshed:
        checkout.run("trending")
        (checkout.top / "constraints.txt").write_text("\n")
        (checkout.top / ".venv" / "pip.half").unlink()
    killed = checkout.start("trending", PIP_SLEEP="60")
    wait_for(checkout.top / ".venv" / "pip.half")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    _ = checkout.log

    checkout.run("trending")

    assert [*MADE, f"pip {checkout.top}"] == checkout.log[:3]


def test_two_starts_at_once_make_it_once(checkout: Checkout) -> None:
    first = checkout.start("trending", PIP_SLEEP="1")
    wait_for(checkout.top / ".venv" / "pip.half")
    second = checkout.start("analysis")
    _, err = second.communicate(timeout=30)
    first.communicate(timeout=30)

    assert "perftrend: waiting for another start" in err
    assert (0, 0) == (first.returncode, second.returncode)
    assert 1 == checkout.log.count("venv")


def test_missing_python_is_the_one_line_to_type(checkout: Checkout) -> None:
    (checkout.bin / "python3").unlink()

    code, _, err = checkout.run("trending")

    assert 2 == code
    assert 1 == err.count("\n")
    assert "needs Python 3.11 or newer" in err
    assert err.endswith("apt-get install -y python3 python3-venv\n")


def test_without_the_tools_of_some_testbeds_it_says_so_once_and_goes_on(checkout: Checkout) -> None:
    (checkout.bin / "nft").unlink()

    code, _, err = checkout.run("trending")
    assert 0 == code
    assert "perftrend: going on without nftables" in err

    code, _, err = checkout.run("trending")
    assert (0, "") == (code, err)


def test_what_is_missing_is_installed_by_apt_without_a_question(checkout: Checkout) -> None:
    (checkout.bin / "nft").unlink()
    checkout.program("id", "#!/bin/sh\necho 1000\n")
    checkout.program("sudo", '#!/bin/sh\n[ "$1" = -n ] && shift && exec "$@"\n')
    checkout.program("apt-get", f'#!/bin/sh\necho "apt $*" >>{checkout.home}/log\n')

    _, _, err = checkout.run("trending")

    assert ["apt -qq update", "apt -qq install -y --no-install-recommends nftables"] == checkout.log[:2]
    assert "perftrend: installing the system packages nftables (once; ./run --no-install " in err


def test_checks_need_programs_that_no_other_job_does(checkout: Checkout) -> None:
    checkout.job("tests")
    for program in ("chromium", "chromium-headless-shell", "shellcheck", "openssl", "ldconfig"):
        checkout.program(program, "#!/bin/sh\n")

    _, _, err = checkout.run("tests")
    assert "perftrend: going on without default-jre-headless maven openssh-client" in err
    assert "libatomic1" in err

    _, _, err = checkout.run("trending")
    assert "going on without" not in err


def test_folder_that_cannot_be_written_is_told(checkout: Checkout) -> None:
    (checkout.top / ".venv.lock").mkdir()

    code, _, err = checkout.run("trending")

    assert 2 == code
    assert "cannot be written" in err


NEVER_INSTALLS = [
    ["--version"],
    ["--help"],
    ["-h"],
    ["help"],
    ["help", "trending"],
    ["trending", "--help"],
    ["trending", "--repeat", "8", "-h"],
    ["--no-install", "trending", "--help"],
    ["--with", "s3", "trending", "--help"],
    ["--with", "nothing"],
    ["--with"],
    ["help", "trendin"],
    ["trending", "--repaet", "8"],
    ["trending", "--no-install"],
    ["trending", "--with=s3"],
]


@pytest.mark.parametrize("arguments", NEVER_INSTALLS, ids=" ".join)
def test_help_version_and_refusals_change_nothing(checkout: Checkout, arguments: list[str]) -> None:
    (checkout.bin / "nft").unlink()
    checkout.program("apt-get", f'#!/bin/sh\necho "apt $*" >>{checkout.home}/log\n')
    before = checkout.files()

    checkout.run(*arguments)

    assert ([], before) == (checkout.log, checkout.files())


@pytest.mark.parametrize("arguments", [["trending", "--help"], ["help", "trending"], ["trending", "-h"]])
def test_help_needs_no_python(checkout: Checkout, arguments: list[str]) -> None:
    (checkout.bin / "python3").unlink()

    code, out, err = checkout.run(*arguments)

    assert (0, (CHECKOUT / "docs/help/trending.txt").read_text(), "") == (code, out, err)


def test_version_needs_no_python(checkout: Checkout) -> None:
    (checkout.bin / "python3").unlink()

    assert (0, f"perftrend {perftrend.__version__}\n", "") == checkout.run("--version")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trending", "--repaet", "8"], "trending has no option --repaet; see ./run trending --help"),
        (["trending", "--repeat=8", "--x=1"], "trending has no option --x; see ./run trending --help"),
        (["trending", "--.*"], "trending has no option --.*; see ./run trending --help"),
        (["trending", "--no-install"], "--no-install goes before the job: ./run --no-install … trending"),
        (["trending", "--with", "s3"], "--with goes before the job: ./run --with … trending"),
        (
            ["--with", "s4"],
            "no extra is named 's4'; known are cluster, s3, parquet, postgresql, trex, vpp, jjb",
        ),
        (
            ["--with", "s3,../x", "analysis"],
            "no extra is named '../x'; known are cluster, s3, parquet, postgresql, trex, vpp, jjb",
        ),
        (["--with"], "--with needs names: cluster, s3, parquet, postgresql, trex, vpp, jjb"),
    ],
)
def test_bad_command_line_is_refused_before_anything_is_installed(
    checkout: Checkout, arguments: list[str], message: str
) -> None:
    assert (2, "", f"perftrend: {message}\n") == checkout.run(*arguments)


@pytest.mark.parametrize("arguments", [["--rep", "8"], ["--repeat=8"], ["--tags", "x", "--", "--odd"]])
def test_options_that_the_job_takes_are_not_refused(checkout: Checkout, arguments: list[str]) -> None:
    assert 0 == checkout.run("trending", *arguments)[0]
    assert f"job -P -m jobs.trending {' '.join(arguments)}" == checkout.log[-1]


def test_refused_system_packages_are_not_installed(checkout: Checkout) -> None:
    (checkout.bin / "nft").unlink()
    checkout.program("id", "#!/bin/sh\necho 0\n")
    checkout.program("apt-get", f'#!/bin/sh\necho "apt $*" >>{checkout.home}/log\n')

    code, _, err = checkout.run("--no-install", "trending")
    assert 0 == code
    assert "going on without nftables" in err
    assert "apt" not in " ".join(checkout.log)

    assert (0, "") == checkout.run("--no-install", "trending")[::2]
    # Without the option, the default applies again.
    assert "installing the system packages nftables" in checkout.run("trending")[2]


def test_extras_are_installed_from_the_checkout_and_remembered(checkout: Checkout) -> None:
    assert 0 == checkout.run("--with", "s3,postgresql")[0]
    assert [*MADE, f"pip {checkout.top}[s3,postgresql]", "compile"] == checkout.log

    checkout.run("trending")
    assert ["job -P -m jobs.trending"] == checkout.log

    checkout.run("--with=cluster", "--with", "s3", "trending")
    assert f"pip {checkout.top}[s3,postgresql,cluster]" == checkout.log[1]

    # As an upgrade of Python does.
    shutil.rmtree(checkout.top / ".venv")
    checkout.run("trending")
    assert f"pip {checkout.top}[s3,postgresql,cluster]" in checkout.log


@pytest.mark.parametrize("kind", ["postgresql", "postgresql+psycopg"])
def test_store_in_postgresql_has_its_driver_installed(checkout: Checkout, kind: str) -> None:
    store = f"{kind}://perftrend@db.example.org/perftrend"

    assert 0 == checkout.run("trending", PERFTREND_STORE=store)[0]
    assert f"pip {checkout.top}[postgresql]" in checkout.log

    assert 0 == checkout.run("trending", PERFTREND_STORE=store)[0]
    assert ["job -P -m jobs.trending"] == checkout.log


@pytest.mark.parametrize("words", [["--store={}"], ["--store", "{}"]])
def test_store_in_postgresql_may_be_an_option(checkout: Checkout, words: list[str]) -> None:
    given = [word.format("postgresql://db.example.org/perftrend") for word in words]

    checkout.run("trending", *given)

    assert f"pip {checkout.top}[postgresql]" in checkout.log


@pytest.mark.parametrize("store", ["", "perftrend.sqlite", "/srv/postgresql://", "sqlite:///postgresql"])
def test_other_stores_need_no_driver(checkout: Checkout, store: str) -> None:
    checkout.run("trending", PERFTREND_STORE=store)

    assert f"pip {checkout.top}" in checkout.log


@pytest.mark.parametrize(
    ("words", "testbed", "package"),
    [
        (["--testbed", "1n-ovs"], "", "openvswitch-switch"),
        (["--testbed=1n-testpmd"], "1n-veth", "dpdk-dev"),
        ([], "1n-ovs", "openvswitch-switch"),
        (["--testbed", "1n-veth"], "1n-ovs", ""),
        (["--testbed"], "", ""),
    ],
)
def test_program_of_a_device_is_installed_if_its_testbed_is_used(
    checkout: Checkout, words: list[str], testbed: str, package: str
) -> None:
    checkout.program("id", "#!/bin/sh\necho 0\n")
    checkout.program("ldconfig", "#!/bin/sh\n")
    checkout.program("apt-get", f'#!/bin/sh\necho "apt $*" >>{checkout.home}/log\n')

    checkout.run("trending", *words, **({"PERFTREND_TESTBED": testbed} if testbed else {}))

    installed = [line.removeprefix("apt -qq install -y --no-install-recommends ") for line in checkout.log
                 if line.startswith("apt -qq install")]  # fmt: skip
    assert ([package] if package else []) == installed


def test_refused_option_installs_no_driver(checkout: Checkout) -> None:
    checkout.run("trending")
    before = checkout.files()

    assert 2 == checkout.run("trending", "--stroe", PERFTREND_STORE="postgresql://db.example.org/x")[0]
    assert before == checkout.files()


def test_missing_network_is_named_instead_of_pips_conflict(checkout: Checkout) -> None:
    code, _, err = checkout.run("trending", FAIL_ON="--editable", UNREACHABLE="1")

    assert 2 == code
    assert "perftrend: the package index cannot be reached" in err


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", CHECKOUT / "docs/help/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_shown_help_is_what_the_jobs_print(generate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run docs/help/generate.py after a change; versions of Python differ in how they break lines."""
    monkeypatch.setenv("COLUMNS", "")
    written = {path: path.read_text().split() for path in (CHECKOUT / "docs/help").glob("*.txt")}

    assert written == {path: text.split() for path, text in generate.helps()}


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)
