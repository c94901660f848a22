"""Filling in a form of a rendered page: the values that a user sent, and the errors at their fields.

The page is changed where the form's fields are, and nowhere else. This is independent of the templates, so
all forms behave alike, and a template contains nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import accumulate
from typing import Self

from markupsafe import Markup, escape
from typing_extensions import override

from perftrend.text import format_count, plain

_TYPED = {"input", "select", "textarea"}
_UNSEEN = {"hidden", "submit", "button", "reset", "image", "file"}
_BOXES = {"checkbox", "radio"}
_TOKEN = "csrf"  # noqa: S105 - the name of the field; a page has a new token
PAGE = "form-page"
"""Hidden field with the address of the page of a form that came back, since the browser shows another one."""
_OUTCOMES = {"post": "Nothing was saved", "get": "These values cannot be shown"}
_Attributes = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class FormProblem:
    """What is wrong with a form."""

    field: str
    """Name of the field; empty: the form as a whole."""
    message: str


@dataclass(frozen=True, slots=True)
class SubmittedForm:
    """A form as a browser sent it."""

    method: str
    """``get`` or ``post``."""
    path: str
    """Path of the address that it was sent to."""
    values: Sequence[tuple[str, str]] | None
    """Names and values of its fields; None: the page has them already."""


def show_problems(
    html: str,
    form: SubmittedForm,
    problems: Sequence[FormProblem],
    *,
    address: str = "",
    needs_field: bool = False,
) -> str | None:
    """Return a page with the values and the problems of one of its forms.

    The first field with a problem has the focus, and a summary at the beginning links to all of them.

    :param address: address of the page, which the form then contains; empty: the browser has it.
    :param needs_field: whether a visible field of the form must have one of the problems.
    :return: None if the page does not contain such a form.
    """
    document = _Document.of(html)
    found = document.find(form)
    if found is None:
        return None
    fields = document.fields(found)
    visible = {each.name: each for each in reversed(fields) if each.is_visible}
    if needs_field and not any(problem.field in visible for problem in problems):
        return None
    wrong: dict[str, list[str]] = {}
    for problem in problems:
        if problem.field in visible:
            wrong.setdefault(problem.field, []).append(problem.message)
    values = dict(_grouped(form.values)) if form.values is not None else None
    edits = [_Edit(document.main, document.main, _summary(form.method, problems, visible))]
    if address:
        hidden = Markup('<input type="hidden" name="{}" value="{}">').format(PAGE, address)
        edits.append(_Edit(found.end, found.end, str(hidden)))
    if document.title:
        edits.append(_Edit(document.title, document.title, "Error: "))
    first = next((each for each in fields if each is visible.get(each.name) and each.name in wrong), None)
    for each in fields:
        messages = wrong.get(each.name, []) if each is visible.get(each.name) else []
        edits += each.edits(values, messages, has_focus=each is first)
    opened = {place for each in fields if each.name in wrong for place in each.details} | set(found.details)
    edits += [document.opened[place] for place in opened if place in document.opened]
    return _apply(html, edits)


@dataclass(frozen=True, slots=True)
class _Edit:
    """A part of a page, and what replaces it."""

    start: int
    end: int
    text: str


@dataclass(slots=True)
class _Option:
    attributes: _Attributes
    start: int
    end: int
    text: str = ""

    def edit(self, chosen: Sequence[str]) -> _Edit:
        value = self.attributes.get("value")
        is_chosen = (self.text.strip() if value is None else value) in chosen
        return _Edit(self.start, self.end, _tag("option", _with_flag(self.attributes, "selected", is_chosen)))


@dataclass(slots=True)
class _Form:
    attributes: _Attributes
    number: int
    end: int
    """End of its start tag."""
    details: tuple[int, ...]
    addresses: list[str] = field(default_factory=list)
    """Where it is sent to: its own address, and those of its buttons."""

    def is_sent_to(self, form: SubmittedForm) -> bool:
        paths = (address.partition("?")[0] for address in self.addresses)
        return (self.attributes.get("method") or "get").lower() == form.method and form.path in paths


@dataclass(slots=True)
class _Field:
    """A field of a form, and its place in the page."""

    tag: str
    attributes: _Attributes
    start: int
    end: int
    """End of its start tag."""
    form: int | None
    """Number of the form that contains it."""
    details: tuple[int, ...]
    """Places of the elements that can be closed and contain it."""
    label: list[str]
    """Texts of the label around it."""
    close: int = 0
    """Start of its end tag."""
    options: list[_Option] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.attributes.get("name") or ""

    @property
    def kind(self) -> str:
        return (self.attributes.get("type") or "text").lower() if self.tag == "input" else self.tag

    @property
    def is_visible(self) -> bool:
        return self.kind not in _UNSEEN and "hidden" not in self.attributes

    @property
    def identity(self) -> str:
        return self.attributes.get("id") or f"field-{self.name}"

    def edits(
        self, values: Mapping[str, list[str]] | None, messages: Sequence[str], *, has_focus: bool
    ) -> Iterator[_Edit]:
        """Yield the edits that show what was sent, and what is wrong with it."""
        attributes = dict(self.attributes)
        if values is not None and self.name != _TOKEN:
            sent = values.get(self.name, [])
            if self.kind in _BOXES:
                chosen = (attributes.get("value") or "on") in sent
                attributes = _with_flag(attributes, "checked", chosen)
            elif self.tag == "input" and sent:
                attributes["value"] = sent[0]
            elif self.tag == "textarea" and sent:
                # Browsers discard one line break at the beginning.
                yield _Edit(self.end, self.close, f"\n{escape(sent[0])}")
            elif self.tag == "select" and any(sent):
                yield from (option.edit(sent) for option in self.options)
        if messages:
            described = f"{self.identity}-error"
            attributes["id"] = self.identity
            attributes["aria-invalid"] = "true"
            attributes["aria-describedby"] = " ".join(
                filter(None, (attributes.get("aria-describedby"), described))
            )
            if has_focus:
                attributes["autofocus"] = None
            after = self.end if self.tag == "input" else self.close + len(f"</{self.tag}>")
            text = Markup(' <span class="field-error" id="{}">{}</span>').format(
                described, "; ".join(map(plain, messages))
            )
            yield _Edit(after, after, str(text))
        if attributes != self.attributes:
            yield _Edit(self.start, self.end, _tag(self.tag, attributes))


class _Document(HTMLParser):
    """The forms of a page, and the places that are edited."""

    def __init__(self, html: str) -> None:
        super().__init__()
        # Only line feeds are line breaks for the parser.
        self._lines = [0, *accumulate(len(line) + 1 for line in html.split("\n"))]
        self.main = 0
        self.title = 0
        self.forms: list[_Form] = []
        self.all_fields: list[_Field] = []
        self.opened: dict[int, _Edit] = {}
        """The edits that open closed elements, by their places."""
        self._labels: dict[str, list[str]] = {}
        self._form: int | None = None
        self._label: list[str] = []
        self._is_label = False
        self._details: list[int] = []
        self._field: _Field | None = None
        """The open field whose content is read."""

    @classmethod
    def of(cls, html: str) -> Self:
        """Return the forms of a page."""
        document = cls(html)
        document.feed(html)
        document.close()
        return document

    def find(self, form: SubmittedForm) -> _Form | None:
        """Return the form that was sent; of several alike, the one with the most equal hidden fields."""
        sent = set(form.values or ())
        alike = [each for each in self.forms if each.is_sent_to(form)]
        return max(
            alike,
            key=lambda each: sum(
                (field.name, field.attributes.get("value") or "") in sent
                for field in self.fields(each)
                if not field.is_visible
            ),
            default=None,
        )

    def fields(self, form: _Form) -> list[_Field]:
        """Return the fields of a form, with their labels."""
        identity = form.attributes.get("id")
        found = [
            each
            for each in self.all_fields
            if each.form == form.number or (identity and each.attributes.get("form") == identity)
        ]
        for each in found:
            each.label = each.label or self._labels.get(each.attributes.get("id") or "", [])
        return found

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        start = self._place()
        end = start + len(self.get_starttag_text() or "")
        if tag == "main":
            self.main = end
        elif tag == "title" and not self.title:
            self.title = end
        elif tag in {"form", "button"}:
            self._read_addresses(tag, attributes, end)
        elif tag == "details":
            self._details.append(start)
            if "open" not in attributes:
                self.opened[start] = _Edit(start, end, _tag(tag, attributes | {"open": None}))
        elif tag == "label":
            self._is_label, self._label = True, []
            if attributes.get("for"):
                self._labels[attributes["for"] or ""] = self._label
        elif tag == "option" and self._field:
            self._field.options.append(_Option(attributes, start, end))
        elif tag in _TYPED:
            label = self._label if self._is_label else []
            added = _Field(tag, attributes, start, end, self._form, tuple(self._details), label)
            self.all_fields.append(added)
            self._field = added if tag != "input" else None

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "details" and self._details:
            self._details.pop()
        elif tag == "label":
            self._is_label = False
        elif tag in _TYPED and self._field:
            self._field.close = self._place()
            self._field = None

    @override
    def handle_data(self, data: str) -> None:
        if self._field and self._field.options:
            self._field.options[-1].text += data
        elif self._is_label and not self._field:
            self._label.append(data)

    def _read_addresses(self, tag: str, attributes: _Attributes, end: int) -> None:
        """Read where a form, or a button of the open one, sends it to."""
        if tag == "form":
            self._form = len(self.forms)
            address = attributes.get("action") or ""
            self.forms.append(_Form(attributes, self._form, end, tuple(self._details), [address]))
        elif self._form is not None and attributes.get("formaction"):
            self.forms[self._form].addresses.append(attributes["formaction"] or "")

    def _place(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column


def _grouped(values: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in values:
        found.setdefault(name, []).append(value)
    return found


def _summary(method: str, problems: Sequence[FormProblem], visible: Mapping[str, _Field]) -> str:
    """Return the summary of all problems, whose heading says in words what is wrong."""
    lines = [_line(problem, visible.get(problem.field)) for problem in problems]
    heading, rest = escape(_OUTCOMES[method]), Markup("")
    if len(lines) == 1:
        heading += Markup(": {}").format(lines[0])
    else:
        heading += Markup(": {} to correct").format(format_count(len(lines), "value"))
        rest = Markup("<ul>{}</ul>").format(Markup("").join(map(Markup("<li>{}</li>").format, lines)))
    focus = Markup("") if any(problem.field in visible for problem in problems) else Markup(" autofocus")
    return str(
        Markup('\n<div class="notice problems" role="alert" tabindex="-1"{}><h2>{}</h2>{}</div>').format(
            focus, heading, rest
        )
    )


def _line(problem: FormProblem, shown: _Field | None) -> Markup:
    message = plain(problem.message)
    if shown is None:
        return escape(f"{problem.field}: {message}" if problem.field else message)
    label = " ".join("".join(shown.label).split()) or shown.attributes.get("aria-label") or shown.name
    return Markup('<a href="#{}">{}</a>: {}').format(shown.identity, label, message)


def _with_flag(attributes: _Attributes, name: str, is_set: bool) -> _Attributes:
    rest: _Attributes = {each: value for each, value in attributes.items() if each != name}
    return rest | {name: None} if is_set else rest


def _tag(tag: str, attributes: _Attributes) -> str:
    written = (name if value is None else f'{name}="{escape(value)}"' for name, value in attributes.items())
    return f"<{' '.join((tag, *written))}>"


def _apply(html: str, edits: Sequence[_Edit]) -> str:
    parts, at = [], 0
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        parts += [html[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, html[at:]])
