-- Limits in the notation, as src/algo/notation.c reads it:
--
--   limit    = "unlimited" | [algorithm " "] quota "/" duration *( " " option " " value )
--            | "concurrency " quota " lease " duration
--   quota    = digits [ k | M | G ]              0..4294967295 after the multiplier
--   duration = digits ( ms | s | m | h | d | w ) 1 ms..3660 d
--
-- What is wrong with a mistake says grammar.lua. A limit read is a table: kind (the letter of its algorithm), steps
-- (what decides by it), quota, window (ms), capacity (what `quota` of a decision says), field and held_field (where its
-- counter is: counter.lua), and, where it has them, burst (or queue), fine (a bucket that is counted in microseconds),
-- precision (ms), parts (W / P), edge.
local MOST = 4294967295
-- The largest quota of a limit that keeps a list of who is counted, which each call reads and writes (leases.lua,
-- members.lua).
local MOST_LISTED = 1024

-- As src/algo/traits.h lists them.
local WORDS = 'sliding-window, fixed-window, sliding-buckets, sliding-log, token-bucket, leaky-bucket, concurrency, ' ..
	'distinct, unlimited'

-- Chains of comparisons here and below: a table would be built anew at every EVALSHA.
local function kind_of(word)
	return (word == '' or word == 'sliding-window') and 'W' or word == 'token-bucket' and 'T' or
		word == 'sliding-buckets' and 'S' or word == 'sliding-log' and 'L' or word == 'fixed-window' and 'F' or
		word == 'leaky-bucket' and 'K' or word == 'distinct' and 'D' or nil
end

local function steps_of(kind)
	return need((kind == 'W' or kind == 'F') and 'window' or kind == 'S' and 'buckets' or kind == 'L' and 'log' or
		kind == 'N' and 'leases' or kind == 'D' and 'members' or 'bucket')
end

local function quota_of(digits, factor)
	local n = tonumber(digits) *
		(factor == '' and 1 or factor == 'k' and 1000 or factor == 'M' and 1000000 or 1000000000)
	return n <= MOST and n or nil
end

local function ms_of(digits, unit)
	local factor = unit == 's' and 1000 or unit == 'm' and 60000 or unit == 'h' and 3600000 or
		unit == 'd' and 86400000 or unit == 'ms' and 1 or unit == 'w' and 604800000
	local ms = factor and digits * factor
	return ms and ms >= 1 and ms <= 316224000000 and ms or nil
end

-- The most that the capacity of a bucket may be. A debt is counted in 1/W of a unit of cost (bucket.lua), so that of a
-- full bucket, and one charge more, must stay below 2^53: in microseconds if it does, else in milliseconds.
local function most_capacity(window)
	return math.floor(9007199254740991 / window) - 1
end

-- Reads what stands after Q/W into the limit; whether all of it is right, and all that is needed is there.
local function options(limit, rest)
	local kind = limit.kind
	while rest ~= '' do
		local name, digits, word, more = rest:match('^ (%l+) (%d*)(%a*)(.*)$')
		local value
		if name == 'edge' and kind == 'S' and not limit.edge and digits == '' then
			value = (word == 'count' or word == 'drop' or word == 'weighted') and word
		elseif name == 'precision' and kind == 'S' and not limit.precision and digits ~= '' then
			value = ms_of(digits, word)
			limit.parts = value and limit.window / value
		elseif (name == 'burst' and kind == 'T' or name == 'queue' and kind == 'K') and not limit.burst and
				digits ~= '' and word:find('^[kMG]?$') and limit.quota > 0 then
			name, value = 'burst', quota_of(digits, word)
		end
		if not value then
			return false
		end
		limit[name], rest = value, more
	end
	if kind == 'S' then
		limit.edge = limit.edge or 'count'
		local parts = limit.parts
		return parts and parts % 1 == 0 and parts >= 2 and parts <= 4096
	elseif kind == 'T' or kind == 'K' then
		limit.burst = limit.burst or limit.quota
		limit.capacity = limit.quota == 0 and 0 or kind == 'K' and limit.burst + 1 or limit.burst
		limit.fine = limit.capacity <= most_capacity(limit.window * 1000)
		return (kind == 'K' or limit.burst > 0 or limit.quota == 0) and limit.capacity <= most_capacity(limit.window)
	end
	return kind ~= 'D' and kind ~= 'N' or limit.quota <= MOST_LISTED
end

-- The name of the field of a limit's counter. Windows have 12 digits at most, which .. writes out in full.
local function field_of(limit, name)
	local field = limit.kind .. limit.window
	if limit.parts then
		field = field .. '/' .. limit.parts
	end
	if name then
		return field .. '@' .. name
	end
	return limit.burst and field .. '*' .. limit.quota or field
end

-- A limit; nil where the text is none, or none that a script has.
local function parse(text)
	local word, space, quota, factor, window, unit, rest =
		text:match('^(%l*%-?%l*)( ?)(%d+)([kMG]?)/(%d+)(%l+)(.*)$')
	local kind = kind_of(word)
	if text == 'unlimited' then
		return {kind = 'U', quota = MOST, capacity = MOST}
	elseif not word then
		quota, factor, window, unit = text:match('^concurrency (%d+)([kMG]?) lease (%d+)(%l+)$')
		kind, rest = quota and 'N', ''
	elseif (word == '') ~= (space == '') then
		return nil
	end
	quota, window = kind and quota_of(quota, factor), kind and ms_of(window, unit)
	if not quota or not window then
		return nil
	end
	local limit = {kind = kind, steps = steps_of(kind), quota = quota, window = window, capacity = quota, field = false,
		held_field = false}
	local checked = rest ~= '' or kind == 'S' or kind == 'T' or kind == 'K' or kind == 'D' or kind == 'N'
	if checked and not options(limit, rest) then
		return nil
	end
	limit.field = field_of(limit)
	limit.held_field = '!' .. limit.field
	return limit
end

local cached = 0

-- The limit that a text says; nil where grammar.lua knows what is wrong. Where the library stays between calls, what
-- was read is kept in `limits`, by its text: nothing that a call changes. Texts above 128 bytes, of leading zeros, are
-- not: what is kept is no part of maxmemory.
local function read(text)
	local limit = limits and limits[text] or parse(text)
	if limits and limit and #text <= 128 and not limits[text] then
		if cached >= 1024 then
			limits, cached = {}, 0
		end
		limits[text], cached = limit, cached + 1
	end
	return limit
end

return {read = read, field_of = field_of, most_capacity = most_capacity, most_listed = MOST_LISTED, words = WORDS}
