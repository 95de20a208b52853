-- What limits of some algorithms have behind Q/W, written in its usual order: the burst or queue of buckets, precision
-- and edge of sub-buckets. Each reads the text behind Q/W into the limit, and tells whether it is as usual.
local notation = need('notation')
local options = {}
local PARTS_MOST = 4096

-- Derives what decisions need of a bucket's numbers. A debt is counted in 1/W of a unit of cost (bucket.lua), so that
-- of a full bucket, and one charge more, must stay below 2^53: in microseconds if it does, else in milliseconds.
-- Returns nil, or the most that the capacity may be where it does not.
function options.derive(limit)
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
		if not burst or burst > notation.most or burst == 0 and limit.kind == 'T' then
			return false
		end
	end
	limit.burst = burst
	return not options.derive(limit)
end

-- The options of sub-buckets; whether they are as expected.
local function sub_buckets(limit, text)
	local n, unit, rest = text:match('^ precision (%d+)(%l+)(.*)$')
	local factor = notation.ms_of(unit)
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
options.T, options.K, options.S = bucket, bucket, sub_buckets

return options
