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
-- I0  At most 262,144 chunks: 33.5 million entries, as in an arena.
-- I1  An empty tail has no chunk before it: first == tail.
-- I2  Expired chunks go when a charge comes, at most 32 at a time; the search begins at `first` all the same.
local numbers, errors = need('numbers'), need('errors')
local series = {}
local CHUNK_MOST = 128
local DROP_MOST = 32
local CHUNKS_MOST = 262144
local HEAD, ENTRY = 12, 8
local TURN = 4294967296

local EMPTY = struct.pack('<I4d', 0, 0)

function series.fresh()
	return {last = 0, first = 0, tail = 0, chunk = EMPTY, written = {}, dropped = {}, read = {}}
end

-- Whether bytes that were read back could be a chunk.
local function sound(chunk)
	if #chunk < HEAD or (#chunk - HEAD) % ENTRY ~= 0 then
		return false
	end
	local _, base = struct.unpack('<I4d', chunk)
	return numbers.sound(base)
end

function series.decode(raw, key, field)
	local chunk = raw:sub(17)
	if not sound(chunk) then
		return nil
	end
	local last, first, tail = struct.unpack('<dI4I4', raw)
	if not numbers.sound(last) or first > tail or tail - first > CHUNKS_MOST or #chunk == HEAD and first < tail then
		return nil
	end
	return {last = last, first = first, tail = tail, chunk = chunk, written = {}, dropped = {}, read = {},
		key = key, field = field}
end

function series.encode(s)
	return struct.pack('<dI4I4', s.last, s.first, s.tail) .. s.chunk
end

-- A copy to try things on; what was read is shared.
function series.clone(s)
	local copy = {last = s.last, first = s.first, tail = s.tail, chunk = s.chunk, written = {}, dropped = {},
		read = s.read, key = s.key, field = s.field}
	for n, chunk in pairs(s.written) do
		copy.written[n] = chunk
	end
	return copy
end

local function chunk_field(s, n)
	return '#' .. n .. '#' .. s.field
end
series.chunk_field = chunk_field

local function chunk_at(s, n)
	if n == s.tail then
		return s.chunk
	end
	local chunk = s.written[n] or s.read[n]
	if not chunk then
		chunk = redis.call('HGET', s.key, chunk_field(s, n))
		if not chunk or #chunk == HEAD or not sound(chunk) then
			errors.raise('ERR the key holds a damaged counter: its field ' ..
				errors.shown(chunk_field(s, n)) .. ' is missing or was changed; SLUICE.RESET forgets it')
		end
		s.read[n] = chunk
	end
	return chunk
end

local function count_of(chunk)
	return (#chunk - HEAD) / ENTRY
end

-- Position and running cost of entry i, from 1.
local function entry(chunk, i)
	local _, base = struct.unpack('<I4d', chunk)
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

-- The running cost at the newest entry.
function series.total(s)
	return sum_before(s.chunk, count_of(s.chunk) + 1)
end

-- The cost between two running costs.
function series.between(from, to)
	return (to - from) % TURN
end

-- The oldest entry for which `test(position, sum)` holds, given that it then holds for all newer ones: chunk, index
-- there, and the running cost before it; index count + 1 in the tail if it holds for none. Gallops over the chunks
-- from the oldest, then halves.
function series.find(s, test)
	local function holds_at_end(n)
		local chunk = chunk_at(s, n)
		return test(entry(chunk, count_of(chunk)))
	end
	local low, high, step = s.first, s.first, 1
	while high < s.tail and not holds_at_end(high) do
		low, high, step = high + 1, high + step, step * 2
	end
	high = math.min(high, s.tail)
	while low < high do
		local middle = math.floor((low + high) / 2)
		if holds_at_end(middle) then
			high = middle
		else
			low = middle + 1
		end
	end
	local chunk = chunk_at(s, low)
	local from, to = 1, count_of(chunk) + 1
	if to > 1 and test(entry(chunk, 1)) then
		to = 1
	end
	while from < to do
		local middle = math.floor((from + to) / 2)
		if test(entry(chunk, middle)) then
			to = middle
		else
			from = middle + 1
		end
	end
	return low, from, sum_before(chunk, from)
end

-- Position and running cost of an entry that series.find() named, or nil behind the newest.
function series.at(s, n, i)
	local chunk = chunk_at(s, n)
	if i > count_of(chunk) then
		return nil
	end
	return entry(chunk, i)
end

-- Position of the newest entry, or nil.
function series.newest(s)
	local count = count_of(s.chunk)
	return count > 0 and (entry(s.chunk, count)) or nil
end

-- Drops what lies before entry i of chunk n: chunks, and in the tail entries.
local function trim(s, n, i)
	local stop = math.min(n, s.first + DROP_MOST)
	for chunk = s.first, stop - 1 do
		s.dropped[#s.dropped + 1] = chunk
		s.written[chunk] = nil
	end
	s.first = stop
	if n == s.tail and s.first == n and i > 1 then
		local _, base = struct.unpack('<I4d', s.chunk)
		s.chunk = struct.pack('<I4d', sum_before(s.chunk, i), base) .. s.chunk:sub(HEAD + (i - 1) * ENTRY + 1)
	end
end

-- Adds cost at a position, not before the newest, and forgets what lies before entry i of chunk n.
function series.add(s, position, cost, n, i)
	trim(s, n, i)
	local count, total = count_of(s.chunk), series.total(s)
	local sum = (total + cost) % TURN
	local _, base = struct.unpack('<I4d', s.chunk)
	if count > 0 and (entry(s.chunk, count)) == position then
		s.chunk = s.chunk:sub(1, -5) .. struct.pack('<I4', sum)
	elseif count == 0 then
		s.chunk = struct.pack('<I4dI4I4', total, position, 0, sum)
	elseif count >= CHUNK_MOST or position - base >= TURN then
		if s.tail - s.first >= CHUNKS_MOST then
			errors.raise('ERR a counter has as many entries as one may have: ' .. CHUNKS_MOST * CHUNK_MOST)
		end
		s.written[s.tail] = s.chunk
		s.tail = s.tail + 1
		s.chunk = struct.pack('<I4dI4I4', total, position, 0, sum)
	else
		s.chunk = s.chunk .. struct.pack('<I4I4', position - base, sum)
	end
end

-- Takes `cost` from the newest entries, which hold at least that much.
function series.take(s, cost)
	local total = series.total(s)
	local n, i, before = series.find(s, function(_, sum)
		return series.between(sum, total) < cost
	end)
	local chunk = chunk_at(s, n)
	local target = (total - cost) % TURN
	local keep = before == target and i - 1 or i
	for gone = n + 1, s.tail - 1 do
		s.dropped[#s.dropped + 1] = gone
	end
	if n < s.tail then
		s.dropped[#s.dropped + 1] = n
		for gone = n, s.tail - 1 do
			s.written[gone] = nil
		end
	end
	s.tail = n
	s.chunk = chunk:sub(1, HEAD + keep * ENTRY)
	if keep == i then
		s.chunk = s.chunk:sub(1, -5) .. struct.pack('<I4', target)
	end
	if keep == 0 and s.first < n then
		s.chunk = chunk_at({tail = -1, written = s.written, read = s.read, key = s.key, field = s.field}, n - 1)
		s.tail = n - 1
		s.written[n - 1] = nil
		s.dropped[#s.dropped + 1] = n - 1
	end
end

-- The counter's fields and what to write into them, behind those that are in `fields`; the fields to delete.
function series.changes(s, fields, gone)
	for n, chunk in pairs(s.written) do
		fields[#fields + 1] = chunk_field(s, n)
		fields[#fields + 1] = chunk
	end
	for _, n in ipairs(s.dropped) do
		gone[#gone + 1] = chunk_field(s, n)
	end
end

return series
