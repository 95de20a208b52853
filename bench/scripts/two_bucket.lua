-- The sliding-window counter as it is written for Redis: one string a window, the older one weighted by the part of it
-- that still overlaps the last `window` milliseconds.
--
-- KEYS  the current window's counter, the previous window's counter
-- ARGV  limit, window in ms, now in ms
-- Answers {allowed, remaining, retry after in ms}. Two GET, and INCR with PEXPIRE when the request is admitted.
local limit, window, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local old = tonumber(redis.call('GET', KEYS[2]) or 0)
local new = tonumber(redis.call('GET', KEYS[1]) or 0)
local left = window - now % window
local used = old * left / window + new

if used + 1 > limit then
	local wait = left
	if old > 0 then
		wait = math.min(left, math.ceil((used + 1 - limit) * window / old))
	end
	return {0, 0, wait}
end

redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], 2 * window)
return {1, math.floor(limit - used - 1), 0}
