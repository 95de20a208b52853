-- A token bucket as it is written for Redis since GCRA became known: one string a key, the instant at which the bucket
-- will be full again ("theoretical arrival time"); it expires at that instant, since a full bucket is no bucket.
--
-- KEYS  the string
-- ARGV  burst, count, period in ms (count refill in a period), now in ms, cost
-- Answers {allowed, remaining, retry after in ms}. One GET, and SET with PX when the request is admitted.
local burst, now, cost = tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5])
local unit = tonumber(ARGV[3]) / tonumber(ARGV[2])
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + cost * unit
local room = now + burst * unit - full_at

if room < 0 then
	return {0, math.max(0, math.floor((room + cost * unit) / unit)), math.ceil(-room)}
end

redis.call('SET', KEYS[1], full_at, 'PX', math.ceil(full_at - now))
return {1, math.floor(room / unit), 0}
