"""Lists of columns that a row-level query may select."""

from __future__ import annotations

PROJECTIONS = """
id
*
upstream.*
*, id + 1 AS more
* EXCEPT (id)
id AS `order id`, `weird ``name```
amount * 100 AS cents, -amount, +amount, amount DIV 2, amount % 2, ~amount, a & b | c ^ d
a || b, a <=> b, a != b, a <> b, NOT a, a AND b OR c, a IS NULL, b IS NOT NULL
a IS DISTINCT FROM b AS changed
a IS NOT DISTINCT FROM b
a BETWEEN 1 AND 2, a NOT IN (1, 2), a LIKE 'x%' ESCAPE '!', a RLIKE '[x]', a LIKE ANY ('x', 'y'), a ILIKE 'X'
CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END, CASE a WHEN 1 THEN 'x' END, if(a, b, c), iff
CAST(a AS DECIMAL(10, 2)), a::int, try_cast(a AS date), INT(a), STRING(a)
coalesce(a, b), nvl(a, b), nullif(a, b), ifnull(a, b), greatest(a, b), least(a, b)
upper(a), lower(a), trim(a), trim(BOTH 'x' FROM a), substring(a, 1, 2), substring(a FROM 2), concat_ws('-', a, b)
extract(year FROM ts), date_trunc('day', ts), year(ts), datediff(a, b), ts + INTERVAL '1' DAY, add_months(a, 1)
overlay(a PLACING 'x' FROM 2), position('x' IN a), regexp_replace(a, 'x', 'y'), split(a, ','), format_string('%s', a)
date '2020-01-01', timestamp '2020-01-01 00:00:00', x'1F', 1L, 1S, 1.0BD, 1e3, true, NULL
named_struct('a', 1), struct(a, b), map('a', 1), array(1, 2), a.b.c, d[0], e['k'], element_at(d, 1), size(d)
exists(items, i -> i > 1), filter(items, i -> i > 1), transform(items, (i, n) -> i + n), forall(items, i -> i > 0)
aggregate(items, 0, (acc, i) -> acc + i), reduce(items, 0, (acc, i) -> acc + i), zip_with(a, b, (x, y) -> x + y)
array_max(items), array_min(items), array_join(items, ','), sort_array(items), array_distinct(items), flatten(a)
hash(a, b), xxhash64(a), md5(a), sha2(a, 256), crc32(a), base64(a), hex(a), conv(a, 2, 10)
to_json(struct(a)), from_json(a, 'x INT'), get_json_object(a, '$.x'), parse_url(a, 'HOST')
unix_timestamp(ts), to_date(a, 'yyyy'), from_unixtime(a), to_utc_timestamp(ts, 'UTC'), make_date(2020, 1, 1)
round(a, 2), bround(a), floor(a), ceil(a), abs(a), sqrt(a), power(a, 2), pmod(a, 7), mod(a, 2), sign(a), log10(a)
system.builtin.upper(a), builtin.lower(a), `upper`(a)
a << 2, a >> 2, IDENTIFIER('a'), identifier('upstream.a')
date, timestamp, value, key, type, year, count, first, max, user_id, current, rank, window
`select`, `from`, `where`, `order by`, `rand()`
order, group
'it''s', "a FROM b", r'raw', '-- no comment', '/* none */', 'SELECT max(x) FROM y', 'current_date()'
""".strip().splitlines()
