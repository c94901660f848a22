"""How long sqlparse takes to parse a statement."""

import sqlparse
import timing

STATEMENT = """
select a.name, count(*) as orders from orders o join accounts a on a.id = o.account_id
where o.total > 10 and a.city in ('Oslo', 'Rome') group by a.name order by orders desc limit 10;
"""

if __name__ == "__main__":
    timing.say(timing.relative(lambda: sqlparse.parse(STATEMENT)))
