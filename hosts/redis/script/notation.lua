-- Limits in the notation, the way that nearly all are written: [algorithm] Q/W, then the options in their usual order.
-- What is written otherwise, or is a mistake, is left to grammar.lua, which reads the notation by its grammar.
--
-- A limit read is a table: kind (the letter of its algorithm), way (what decides by it), quota, window (ms), capacity
-- (what `quota` of a decision says), field (whose counter it is: counter.lua) and holds_field, and, where it has
-- them, burst (or queue), fine (a bucket that is counted in microseconds), precision (ms), parts (W / P), edge.
local QUOTA_MOST = 4294967295
local WINDOW_MOST = 3660 * 86400000
local CACHE_MOST = 1024

-- What decides by a kind. Chains of comparisons here and below: a table would be built anew at every EVALSHA.
local function way_of(kind)
	return need((kind == 'W' or kind == 'F') and 'window' or kind == 'S' and 'buckets' or kind == 'L' and 'log' or
		kind == 'N' and 'concurrency' or kind == 'D' and 'distinct' or 'bucket')
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

-- Limits read before, where the library stays between calls: by their text, nothing that a call changes.
local cache, cached = {}, 0

-- Keeps a limit that was read, and returns it.
local function keep(text, limit)
	if KEPT then
		if cached >= CACHE_MOST then
			cache, cached = {}, 0
		end
		cache[text], cached = limit, cached + 1
	end
	return limit
end

-- The limit that a text says as usual, or nil.
local function usual(text)
	if cache[text] then
		return cache[text]
	end
	local word, space, quota, window, unit, options = text:match('^([%l-]*)( ?)(%d+)/(%d+)(%l+)(.*)$')
	local kind, factor = kind_of(word), ms_of(unit)
	if not kind or not factor or (word == '') ~= (space == '') then
		return nil
	end
	quota, window = tonumber(quota), window * factor
	if quota > QUOTA_MOST or quota == 0 or window < 1 or window > WINDOW_MOST then
		return nil
	end
	local limit = {kind = kind, way = way_of(kind), quota = quota, window = window, capacity = quota, field = false,
		holds_field = false}
	if kind == 'S' or kind == 'T' or kind == 'K' then
		if not need('options')[kind](limit, options) then
			return nil
		end
	elseif options ~= '' then
		return nil
	end
	limit.field = field_of(limit)
	limit.holds_field = '!' .. limit.field
	return keep(text, limit)
end

return {most = QUOTA_MOST, way_of = way_of, ms_of = ms_of, field_of = field_of, keep = keep, usual = usual}
