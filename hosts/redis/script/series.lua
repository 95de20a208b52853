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
local numbers = need('numbers')
local CHUNK_MOST = 128
local DROP_MOST = 32
local CHUNKS_MOST = 262144
local HEAD, ENTRY = 12, 8
local TURN = 4294967296

-- A state holds its tail twice: as bytes, and unpacked what most calls need of it: `before` (the cost before the tail),
-- `base`, `count`, `newest` (position; nil if there is no entry) and `total` (running cost there). `written` (chunks
-- that were filled), `dropped` (chunks to delete) and `read` (chunks fetched) are lists, or false.
local function fresh(key, field)
	return {last = 0, first = 0, tail = 0, chunk = struct.pack('<I4d', 0, 0), before = 0, base = 0, count = 0,
		newest = nil, total = 0, written = false, dropped = false, read = false, key = key, field = field}
end

local function decode(raw, key, field)
	local bytes = #raw
	if bytes < 16 + HEAD or bytes % ENTRY ~= (16 + HEAD) % ENTRY then
		return nil
	end
	local last, first, tail, before, base = struct.unpack('<dI4I4I4d', raw)
	if not numbers.sound(last) or not numbers.sound(base) or first > tail or tail - first > CHUNKS_MOST or
			bytes == 16 + HEAD and first < tail then
		return nil
	end
	local newest, total = nil, before
	if bytes > 16 + HEAD then
		newest, total = struct.unpack('<I4I4', raw, bytes - 7)
		newest = base + newest
	end
	return {last = last, first = first, tail = tail, chunk = raw:sub(17), before = before, base = base,
		count = (bytes - 16 - HEAD) / ENTRY, newest = newest, total = total, written = false, dropped = false,
		read = false, key = key, field = field}
end

local function encode(s)
	return struct.pack('<dI4I4', s.last, s.first, s.tail) .. s.chunk
end

-- A copy to try things on; what was read is shared.
local function clone(s)
	local copy = {}
	for name, value in pairs(s) do
		copy[name] = value
	end
	copy.dropped = false
	if s.written then
		copy.written = {}
		for n, chunk in pairs(s.written) do
			copy.written[n] = chunk
		end
	end
	return copy
end

local function chunk_field(s, n)
	return '#' .. n .. '#' .. s.field
end

-- Chunk n, which is not the tail.
local function full_chunk(s, n)
	local chunk = s.written and s.written[n] or s.read and s.read[n]
	if not chunk then
		chunk = redis.call('HGET', s.key, chunk_field(s, n))
		local bytes = chunk and #chunk or 0
		if bytes <= HEAD or (bytes - HEAD) % ENTRY ~= 0 or not numbers.sound((struct.unpack('<d', chunk, 5))) then
			local errors = need('errors')
			errors.raise('ERR the key holds a damaged counter: its field ' .. errors.shown(chunk_field(s, n)) ..
				' is missing or was changed; SLUICE.RESET forgets it')
		end
		s.read = s.read or {}
		s.read[n] = chunk
	end
	return chunk
end

-- Position and running cost of entry i, from 1.
local function entry(chunk, base, i)
	local offset, sum = struct.unpack('<I4I4', chunk, HEAD + (i - 1) * ENTRY + 1)
	return base + offset, sum
end

-- The running cost before entry i.
local function sum_before(chunk, i)
	if i == 1 then
		return (struct.unpack('<I4', chunk))
	end
	return (struct.unpack('<I4', chunk, HEAD + (i - 2) * ENTRY + 5))
end

-- The cost between two running costs.
local function between(from, to)
	return (to - from) % TURN
end

-- Unpacks the tail anew.
local function unpack_tail(s)
	s.before, s.base = struct.unpack('<I4d', s.chunk)
	s.count = (#s.chunk - HEAD) / ENTRY
	s.newest, s.total = nil, s.before
	if s.count > 0 then
		s.newest, s.total = entry(s.chunk, s.base, s.count)
	end
end

-- Position and running cost of the newest entry of chunk n, before the tail.
local function newest_of(s, n)
	local chunk = full_chunk(s, n)
	return entry(chunk, (struct.unpack('<d', chunk, 5)), (#chunk - HEAD) / ENTRY)
end

-- Whether the newest entry of chunk n, before the tail, is one that find() looks for.
local function found_in(s, n, by_cost, bound)
	local position, sum = newest_of(s, n)
	if by_cost then
		return (s.total - sum) % TURN <= bound
	end
	return position >= bound
end

-- The chunk in which find() ends: gallops from the oldest, then halves.
local function find_chunk(s, by_cost, bound)
	local low, high, step = s.first, s.first, 1
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

-- The oldest entry from position `bound` on or, `by_cost`, the oldest behind which there is a cost of at most `bound`:
-- chunk, index there, the running cost before it, its position and running cost; index count + 1 in the tail, and no
-- position, if there is none.
local function find(s, by_cost, bound)
	local n, chunk, base, count, total = s.tail, s.chunk, s.base, s.count, s.total
	if s.first < n then
		n = find_chunk(s, by_cost, bound)
		if n < s.tail then
			chunk = full_chunk(s, n)
			base, count = struct.unpack('<d', chunk, 5), (#chunk - HEAD) / ENTRY
		end
	end
	-- All before `from` are too old, `to` is not; it is the first one in most calls, so that is looked at first.
	local from, to, middle = 1, count + 1, 1
	local position, sum
	while from < to do
		local at, upto = entry(chunk, base, middle)
		local found
		if by_cost then
			found = (total - upto) % TURN <= bound
		else
			found = at >= bound
		end
		if found then
			to, position, sum = middle, at, upto
		else
			from = middle + 1
		end
		middle = math.floor((from + to) / 2)
	end
	return n, from, sum_before(chunk, from), position, sum
end

-- Drops what lies before entry i of chunk n: chunks, and in the tail entries.
local function trim(s, n, i)
	local stop = math.min(n, s.first + DROP_MOST)
	for chunk = s.first, stop - 1 do
		s.dropped = s.dropped or {}
		s.dropped[#s.dropped + 1] = chunk
		if s.written then
			s.written[chunk] = nil
		end
	end
	s.first = stop
	if n == s.tail and s.first == n and i > 1 then
		s.before = sum_before(s.chunk, i)
		s.count = s.count - (i - 1)
		s.chunk = struct.pack('<I4d', s.before, s.base) .. s.chunk:sub(HEAD + (i - 1) * ENTRY + 1)
		if s.count == 0 then
			s.newest, s.total = nil, s.before
		end
	end
end

-- Adds cost at a position, not before the newest, and forgets what lies before entry i of chunk n.
local function add(s, position, cost, n, i)
	if n > s.first or i > 1 then
		trim(s, n, i)
	end
	local count, total = s.count, s.total
	local sum = (total + cost) % TURN
	if count > 0 and s.newest == position then
		s.chunk = s.chunk:sub(1, -5) .. struct.pack('<I4', sum)
	elseif count > 0 and count < CHUNK_MOST and position - s.base < TURN then
		s.chunk = s.chunk .. struct.pack('<I4I4', position - s.base, sum)
		s.count = count + 1
	else
		if count > 0 then
			if s.tail - s.first >= CHUNKS_MOST then
				need('room').outgrown(s, newest_of(s, s.first))
			end
			s.written = s.written or {}
			s.written[s.tail] = s.chunk
			s.tail = s.tail + 1
		end
		s.chunk = struct.pack('<I4dI4I4', total, position, 0, sum)
		s.before, s.base, s.count = total, position, 1
	end
	s.newest, s.total = position, sum
end

-- Takes `cost` from the newest entries, which hold at least that much.
local function take(s, cost)
	local n, i, before = find(s, true, cost - 1)
	local chunk = n == s.tail and s.chunk or full_chunk(s, n)
	local target = (s.total - cost) % TURN
	local keep = before == target and i - 1 or i
	s.dropped = s.dropped or {}
	for gone = n, s.tail - 1 do
		s.dropped[#s.dropped + 1] = gone
		if s.written then
			s.written[gone] = nil
		end
	end
	s.tail = n
	s.chunk = chunk:sub(1, HEAD + keep * ENTRY)
	if keep == i then
		s.chunk = s.chunk:sub(1, -5) .. struct.pack('<I4', target)
	end
	if keep == 0 and s.first < n then
		s.chunk = full_chunk(s, n - 1)
		s.tail = n - 1
		if s.written then
			s.written[n - 1] = nil
		end
		s.dropped[#s.dropped + 1] = n - 1
	end
	unpack_tail(s)
end

-- The counter's fields and what to write into them, behind those that are in `fields`; the fields to delete.
local function changes(s, fields, gone)
	for n, chunk in pairs(s.written or {}) do
		fields[#fields + 1] = chunk_field(s, n)
		fields[#fields + 1] = chunk
	end
	for _, n in ipairs(s.dropped or {}) do
		gone[#gone + 1] = chunk_field(s, n)
	end
end

return {fresh = fresh, decode = decode, encode = encode, clone = clone, between = between, find = find,
	add = add, take = take, changes = changes, chunk_field = chunk_field}
