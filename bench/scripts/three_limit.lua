-- Several limits in one hash, sliding by sub-buckets, all or nothing: the approach of Josiah Carlson's articles.
--
-- For a limit of `seconds` cut into sub-buckets of `step` the hash holds, under a prefix of its own: the total, the
-- oldest sub-bucket that may still hold something, and one counter a sub-bucket. A first pass drops what has slid out
-- and compares; only when every limit has room does a second pass charge them all.
--
-- KEYS  the hash
-- ARGV  limits as JSON [[seconds, quota, step or nothing], ...], now in s, cost
-- Answers 0 when allowed, 1 when denied.
local hash, limits = KEYS[1], cjson.decode(ARGV[1])
local now, cost = tonumber(ARGV[2]), tonumber(ARGV[3])
local charges, longest = {}, 0

for i = 1, #limits do
	local seconds, quota = limits[i][1], limits[i][2]
	local step = limits[i][3] or seconds
	local prefix = seconds .. '/' .. step .. '/'
	local current = math.floor(now / step)
	local count = math.ceil(seconds / step)
	local first = current - count + 1
	local oldest = tonumber(redis.call('HGET', hash, prefix .. 'from') or first)

	local gone, fields = 0, {}
	for bucket = oldest, math.min(first, oldest + count) - 1 do
		local held = redis.call('HGET', hash, prefix .. bucket)
		if held then
			gone = gone + tonumber(held)
			fields[#fields + 1] = prefix .. bucket
		end
	end

	local total
	if #fields > 0 then
		redis.call('HDEL', hash, unpack(fields))
		total = redis.call('HINCRBY', hash, prefix .. 'sum', -gone)
	else
		total = tonumber(redis.call('HGET', hash, prefix .. 'sum') or 0)
	end
	if total + cost > quota then
		return 1
	end
	charges[i] = {prefix, first, current}
	longest = math.max(longest, seconds)
end

for i = 1, #charges do
	local prefix, first, current = charges[i][1], charges[i][2], charges[i][3]
	redis.call('HSET', hash, prefix .. 'from', first)
	redis.call('HINCRBY', hash, prefix .. 'sum', cost)
	redis.call('HINCRBY', hash, prefix .. current, cost)
end
redis.call('EXPIRE', hash, longest)
return 0
