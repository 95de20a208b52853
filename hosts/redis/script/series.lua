-- A series: positions that never fall, each with a cost, of which the oldest are forgotten and the newest taken back.
-- sliding-log keeps one of instants, sliding-buckets one of sub-buckets.
--
-- An entry is a position and the running cost up to and including it, modulo 2^32, so that the cost of any stretch is
-- a difference, and both the edge of a window and the entry whose end admits a denied cost are found by halving.
-- Entries lie in chunks of at most 128. The newest chunk, the tail, is part of the counter's own field; full ones have
-- a field each, written once. So a charge costs one field of at most 1 KB whatever the quota is, and a search reads as
-- many chunks as the series has binary digits of them: O(1) and O(log n), never O(quota).
--
--   the counter's field   d last | I4 first | I4 tail | chunk        last: instant of the last charge
--   "#n#" and its name    chunk n, for first <= n < tail
--   a chunk               I4 cost before it | d base | entries of I4 position - base, I4 running cost
--
-- I0  At most 262,144 chunks: 33.5 million entries, as in an arena; one more is denied (room.lua).
-- I1  An empty tail has no chunk before it: first == tail.
-- I2  Expired chunks go when a charge comes, at most 32 at a time; the search begins at `first` all the same.
--
-- An open series is its field (`raw`) and what most calls need of it; `n` and `i` say where the window begins, in which
-- chunk and at which entry. `c` is the counter: `key`, `field`, and `chunks`, those that were read or have become full.
local CHUNK_MOST = 128
local DROP_MOST = 32
local CHUNKS_MOST = 262144
local TURN = 4294967296

-- The series of a field, or of none, at `now`, never before its last charge; nil where the field is damaged.
local function open(raw, now, c)
	local last, first, tail, before, base, count, newest, total = 0, 0, 0, 0, 0, 0, false, 0
	if raw then
		local bytes = #raw
		if bytes < 28 or bytes % 8 ~= 4 then
			return nil
		end
		last, first, tail, before, base = struct.unpack('<dI4I4I4d', raw)
		if not (last >= 0 and last < 9007199254740992 and last % 1 == 0 and base >= 0 and base < 9007199254740992 and
				base % 1 == 0) or first > tail or tail - first > CHUNKS_MOST or bytes == 28 and first < tail then
			return nil
		end
		total, count = before, (bytes - 28) / 8
		if count > 0 then
			newest, total = struct.unpack('<I4I4', raw, bytes - 7)
			newest = base + newest
		end
	end
	return {raw = raw or '', t = now > last and now or last, first = first, tail = tail, before = before, base = base,
		count = count, newest = newest, total = total, c = c, n = tail, i = 1, used = 0, room = 0}
end

local function chunk_field(c, n)
	return '#' .. n .. '#' .. c.field
end

-- Chunk n: its text, how many bytes stand before its entries, the base of their positions, and how many there are.
local function chunk_of(s, n)
	if n == s.tail then
		return s.raw, 28, s.base, s.count
	end
	local c = s.c
	c.chunks = c.chunks or {}
	local text = c.chunks[n]
	if not text then
		text = redis.call('HGET', c.key, chunk_field(c, n)) or ''
		if #text <= 12 or #text % 8 ~= 4 or not need('numbers').sound((struct.unpack('<d', text, 5))) then
			need('errors').damaged(chunk_field(c, n), 'is missing or was changed')
		end
		c.chunks[n] = text
	end
	return text, 12, (struct.unpack('<d', text, 5)), (#text - 12) / 8
end

-- Whether the newest entry of chunk n, before the tail, is one that find() looks for.
local function found_in(s, n, by_cost, bound)
	local text, _, base = chunk_of(s, n)
	local offset, sum = struct.unpack('<I4I4', text, #text - 7)
	if by_cost then
		return (s.total - sum) % TURN <= bound
	end
	return base + offset >= bound
end

-- The chunk in which find() ends: gallops from `from`, then halves.
local function find_chunk(s, from, by_cost, bound)
	local low, high, step = from, from, 1
	while high < s.tail and not found_in(s, high, by_cost, bound) do
		low, high, step = high + 1, high + step, step * 2
	end
	high = math.min(high, s.tail)
	while low < high do
		local middle = math.floor((low + high) / 2)
		if found_in(s, middle, by_cost, bound) then
			high = middle
		else
			low = middle + 1
		end
	end
	return low
end

-- The oldest entry from position `bound` on or, `by_cost`, the oldest of the window after which there is a cost of at
-- most `bound`: chunk, index there, the running cost before it, its position and running cost; index count + 1 in the
-- tail, and no position, if there is none. Costs are compared within the window only: it holds less than 2^32, and with
-- what still stands before it running costs would repeat.
local function find(s, by_cost, bound)
	local n, begin, total = s.tail, by_cost and s.n or s.first, s.total
	if begin < n then
		n = find_chunk(s, begin, by_cost, bound)
	end
	local text, skip, base, count = chunk_of(s, n)
	-- All before `from` are too old, `to` is not; it is the first one in most calls, so that is looked at first.
	local from, to = by_cost and n == s.n and s.i or 1, count + 1
	local middle = from
	local position, sum
	while from < to do
		local at, upto = struct.unpack('<I4I4', text, skip + middle * 8 - 7)
		at = base + at
		if by_cost and (total - upto) % TURN <= bound or not by_cost and at >= bound then
			to, position, sum = middle, at, upto
		else
			from = middle + 1
		end
		middle = math.floor((from + to) / 2)
	end
	if from > 1 then
		return n, from, struct.unpack('<I4', text, skip + from * 8 - 11), position, sum
	elseif n == s.tail then
		return n, 1, s.before, position, sum
	end
	return n, 1, struct.unpack('<I4', text), position, sum
end

-- Adds cost at a position, not before the newest, and forgets what lies before the window; the counter's field.
local function add(s, position, cost)
	local n, count, from, upto = s.n, s.count, 1, -1
	local sum = (s.total + cost) % TURN
	s.first = math.min(n, s.first + DROP_MOST)
	if s.first == s.tail and s.i > 1 then
		from = s.i
		count, s.before, s.i = count - from + 1, struct.unpack('<I4', s.raw, 17 + from * 8), 1
	end
	if count == 0 then
		s.before, s.base = s.total, position
	elseif s.newest == position then
		count, upto = count - 1, -9
	elseif count >= CHUNK_MOST or position - s.base >= TURN then
		if s.tail - s.first >= CHUNKS_MOST then
			local text, _, base = chunk_of(s, s.first)
			need('room').outgrown(s.c, base + struct.unpack('<I4', text, #text - 7))
		end
		s.c.chunks = s.c.chunks or {}
		s.c.chunks[s.tail] = struct.pack('<I4d', s.before, s.base) .. s.raw:sub(21 + from * 8)
		s.tail, s.before, s.base, count, from = s.tail + 1, s.total, position, 0, #s.raw
	end
	s.raw = struct.pack('<dI4I4I4d', s.t, s.first, s.tail, s.before, s.base) .. s.raw:sub(21 + from * 8, upto) ..
		struct.pack('<I4I4', position - s.base, sum)
	s.count, s.newest, s.total = count + 1, position, sum
	return s.raw
end

-- Takes `cost` from the newest entries, which hold at least that much; the counter's field.
local function take(s, cost)
	local n, i, before = find(s, true, cost - 1)
	local text, skip = chunk_of(s, n)
	local target = (s.total - cost) % TURN
	local chunk = text:sub(skip - 11, skip + i * 8 - 4) .. struct.pack('<I4', target)
	-- All of entry i goes.
	if before == target then
		chunk = text:sub(skip - 11, skip + i * 8 - 8)
		if i == 1 and s.first < n then
			n = n - 1
			chunk = chunk_of(s, n)
		end
	end
	return s.raw:sub(1, 12) .. struct.pack('<I4', n) .. chunk
end

-- What becomes of the other fields of a counter whose own was `from` (false: none) and is now `to`: puts fields and
-- texts to write after fields[at], fields to delete after those in `gone`; how many there are in `fields` then.
local function changes(c, from, to, fields, at, gone)
	local first, tail = 0, 0
	-- What is to be forgotten may be damaged.
	if from and (to or open(from, 0, c)) then
		first, tail = struct.unpack('<I4I4', from, 9)
	end
	local first_now, tail_now = 0, 0
	if to then
		first_now, tail_now = struct.unpack('<I4I4', to, 9)
	end
	for n = math.max(tail, first_now), tail_now - 1 do
		fields[at + 1], fields[at + 2] = chunk_field(c, n), c.chunks[n]
		at = at + 2
	end
	for n = first, tail - 1 do
		if n < first_now or n >= tail_now then
			gone[#gone + 1] = chunk_field(c, n)
		end
	end
	return at
end

return {open = open, find = find, add = add, take = take, changes = changes}
