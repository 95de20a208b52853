-- The sliding log as it is written for Redis: a sorted set with a member for each admitted request, scored by its time.
--
-- KEYS  the set
-- ARGV  limit, window in ms, now in ms, something that makes a member unique
-- Answers {allowed, remaining, retry after in ms}. Trims and counts always; adds and renews the expiry when admitted.
local set = KEYS[1]
local limit, window, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', set, '-inf', now - window)
local held = redis.call('ZCARD', set)

if held >= limit then
	local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
	return {0, 0, math.ceil(tonumber(first[2] or now) + window - now)}
end

redis.call('ZADD', set, now, ARGV[3] .. ':' .. ARGV[4])
redis.call('PEXPIRE', set, window)
return {1, limit - held - 1, 0}
