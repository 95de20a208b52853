-- Limits in the notation, the way that nearly all are written: [algorithm] Q/W, then the options in their usual order.
-- What is written otherwise, or is a mistake, is left to grammar.lua, which reads the notation by its grammar.
--
-- A limit read is a table: kind (the letter of its algorithm), way (what decides by it), quota, window (ms), capacity
-- (what `quota` of a decision says), field (whose counter it is: counter.lua), and, where it has them, burst (or queue),
-- fine (a bucket that is counted in microseconds), precision (ms), parts (W / P), edge.
local QUOTA_MOST = 4294967295
local WINDOW_MOST = 3660 * 86400000
local PARTS_MOST = 4096
local CACHE_MOST = 1024

-- What decides by a kind. Chains of comparisons here and below: a table would be built anew at every EVALSHA.
local function way_of(kind)
	return need((kind == 'W' or kind == 'F') and 'window' or kind == 'S' and 'buckets' or kind == 'L' and 'log' or
		'bucket')
end

local function kind_of(word)
	return (word == '' or word == 'sliding-window') and 'W' or word == 'token-bucket' and 'T' or
		word == 'sliding-buckets' and 'S' or word == 'sliding-log' and 'L' or word == 'fixed-window' and 'F' or
		word == 'leaky-bucket' and 'K' or nil
end

local function ms_of(unit)
	return unit == 's' and 1000 or unit == 'm' and 60000 or unit == 'h' and 3600000 or unit == 'd' and 86400000 or
		unit == 'ms' and 1 or unit == 'w' and 604800000 or nil
end

-- The name of the field of a limit's counter. Windows have 12 digits at most, which .. writes out in full.
local function field(limit, name)
	local field = limit.kind .. limit.window
	if limit.parts then
		field = field .. '/' .. limit.parts
	end
	if name then
		return field .. '@' .. name
	end
	return limit.burst and field .. '*' .. limit.quota or field
end

-- Derives what decisions need of a bucket's numbers. A debt is counted in 1/W of a unit of cost (bucket.lua), so that
-- of a full bucket, and one charge more, must stay below 2^53: in microseconds if it does, else in milliseconds.
-- Returns nil, or the most that the capacity may be where it does not.
local function derive(limit)
	local exact = 9007199254740991
	limit.capacity = limit.quota == 0 and 0 or limit.kind == 'K' and limit.burst + 1 or limit.burst
	limit.fine = limit.capacity + 1 <= math.floor(exact / (limit.window * 1000))
	local most = math.floor(exact / limit.window) - 1
	return limit.capacity > most and most or nil
end

-- The options of a bucket; whether they are as expected.
local function bucket(limit, text)
	local burst = limit.quota
	if text ~= '' then
		burst = tonumber(text:match(limit.kind == 'T' and '^ burst (%d+)$' or '^ queue (%d+)$'))
		if not burst or burst > QUOTA_MOST or burst == 0 and limit.kind == 'T' then
			return false
		end
	end
	limit.burst = burst
	return not derive(limit)
end

-- The options of sub-buckets; whether they are as expected.
local function sub_buckets(limit, text)
	local n, unit, rest = text:match('^ precision (%d+)(%l+)(.*)$')
	local factor = ms_of(unit)
	if not factor or rest ~= '' and rest ~= ' edge count' and rest ~= ' edge drop' and rest ~= ' edge weighted' then
		return false
	end
	local precision = n * factor
	if limit.window % precision ~= 0 then
		return false
	end
	local parts = limit.window / precision
	if parts < 2 or parts > PARTS_MOST then
		return false
	end
	limit.precision, limit.parts, limit.edge = precision, parts, rest == '' and 'count' or rest:sub(7)
	return true
end

local function read(text)
	local word, space, quota, window, unit, options = text:match('^([%l-]*)( ?)(%d+)/(%d+)(%l+)(.*)$')
	local kind, factor = kind_of(word), ms_of(unit)
	if not kind or not factor or (word == '') ~= (space == '') then
		return nil
	end
	quota, window = tonumber(quota), window * factor
	if quota > QUOTA_MOST or quota == 0 or window < 1 or window > WINDOW_MOST then
		return nil
	end
	local limit = {kind = kind, way = way_of(kind), quota = quota, window = window, capacity = quota, field = false}
	if kind == 'S' then
		if not sub_buckets(limit, options) then
			return nil
		end
	elseif kind == 'T' or kind == 'K' then
		if not bucket(limit, options) then
			return nil
		end
	elseif options ~= '' then
		return nil
	end
	limit.field = field(limit)
	return limit
end

-- Limits read before, where the library stays between calls: by their text, nothing that a call changes.
local cache, cached = {}, 0

-- Keeps a limit that was read, and returns it.
local function keep(text, limit)
	if cached >= CACHE_MOST then
		cache, cached = {}, 0
	end
	cache[text], cached = limit, cached + 1
	return limit
end

-- The limit that a text says, or nil where the grammar must tell.
local function limit(text)
	local limit = cache[text]
	if limit then
		return limit
	end
	limit = read(text)
	return limit and keep(text, limit)
end

return {way_of = way_of, most = QUOTA_MOST, field = field, derive = derive, keep = keep, limit = limit}
