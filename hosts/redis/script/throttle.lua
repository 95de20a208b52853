-- CL.THROTTLE, redis-cell's command: key max_burst count period [quantity]. A token-bucket of count/period s and burst
-- max_burst + 1, with a counter that no CHECK meets; waits in seconds, rounded up. A quantity of 0 peeks, a negative
-- one refunds.
local numbers, errors, words, decide = need('numbers'), need('errors'), need('words'), need('decide')
local notation = need('notation')
local PERIOD_MOST = 3660 * 86400
local MOST = notation.most

local function read_quantity(call)
	local text = call.args[call.at]
	if text == nil then
		return 1
	end
	local n = numbers.read(text:match('^%-?(.*)$'), 0, MOST)
	if not n then
		errors.raise('ERR quantity ' .. errors.shown(text) ..
			': expected a whole number from -4294967295 to 4294967295')
	end
	call.at = call.at + 1
	return text:sub(1, 1) == '-' and -n or n
end

local function seconds(ms)
	return math.ceil(ms / 1000)
end

return function(keys, call)
	if #keys ~= 1 or #call.args - call.at > 3 then
		errors.raise('ERR expected one key, and max_burst count period [quantity]')
	end
	local limit = {kind = 'C', way = need('bucket')}
	limit.burst = words.number(call, 'max_burst', 0, MOST - 1) + 1
	limit.quota = words.number(call, 'count', 1, MOST)
	limit.window = words.number(call, 'period', 1, PERIOD_MOST) * 1000
	local most = need('options').derive(limit)
	if most then
		errors.raise('ERR these numbers leave the 53 bits that a script counts in: with a period of ' ..
			numbers.text(limit.window / 1000) .. ' s max_burst is at most ' .. numbers.text(most - 1) ..
			'; use a shorter period, or the module')
	end
	local quantity = read_quantity(call)
	call.cost = math.abs(quantity)
	local field = notation.field_of(limit)
	call.items = {{key = keys[1], limit = limit, field = field, holds_field = '!' .. field}}
	words.server_clock(call)
	local reply = quantity < 0 and need('undo').refunded(call) or decide.check(call, quantity > 0)
	local allowed, retry = reply[1], reply[4]
	return {1 - allowed, reply[2], reply[3], (allowed == 1 or retry < 0) and -1 or seconds(retry), seconds(reply[5])}
end
