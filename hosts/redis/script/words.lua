-- The words of a call, as docs/design/011-redis.md lists them, checked before anything is read or written:
--
--   key [cost | id ...] [AT ms] [EACH | EXACT] items
--
-- Items with words of their own, and several of them, are read by items.lua.
local numbers, notation = need('numbers'), need('notation')

local AT_MOST = 9223372036854

-- Reads a whole number from `least` to `most` (< 2^53).
local function number(call, what, least, most)
	local text = call.args[call.at]
	local n = numbers.read(text, least, most)
	if not n then
		local errors = need('errors')
		errors.raise('ERR ' .. what .. ' ' .. (text and errors.shown(text) or 'is missing') ..
			': expected a whole number from ' .. numbers.text(least) .. ' to ' .. numbers.text(most))
	end
	call.at = call.at + 1
	return n
end

local function server_clock(call)
	local time = redis.call('TIME')
	local us = tonumber(time[2])
	local part = us % 1000
	call.now, call.us = time[1] * 1000 + (us - part) / 1000, part
end

-- The instant of the call: the server's, or what AT says.
local function clock(call)
	local word = call.args[call.at]
	if word and #word == 2 and word:lower() == 'at' then
		if not CLIENT_TIME then
			need('errors').raise('ERR AT is not allowed here: load the script that was built with --client-time')
		end
		call.at = call.at + 1
		call.now, call.set = number(call, 'AT', 0, AT_MOST), true
		return
	end
	server_clock(call)
end

-- Reads AT, EACH or EXACT (unless call.each is nil: then there is none) and the items, to the end; most calls have one
-- limit, and no word in front of it.
local function rest(call, keys)
	clock(call)
	local args = call.args
	local text = args[call.at]
	local word = text and call.each ~= nil and (#text == 4 or #text == 5) and text:lower()
	if word == 'each' or word == 'exact' then
		call.each, call.exact = true, word == 'exact'
		call.at = call.at + 1
		text = args[call.at]
	end
	local key = keys[1]
	if text and not args[call.at + 1] and not keys[2] and #key <= 1024 then
		local limit = notation.usual(text)
		if limit and limit.kind ~= 'N' and limit.kind ~= 'D' then
			call.items = {{key = key, limit = limit, field = limit.field, holds_field = limit.holds_field,
				counter = false, admits = false, v = false, delay = 0}}
			return
		end
	end
	need('items')(call, keys)
end

return {number = number, server_clock = server_clock, clock = clock, rest = rest}
