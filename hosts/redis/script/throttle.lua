-- CL.THROTTLE, redis-cell's command: key max_burst count period [quantity]. A token-bucket of count/period s and burst
-- max_burst + 1, with a counter that no CHECK meets; waits in seconds, rounded up. A quantity of 0 peeks, a negative
-- one refunds.
local numbers, errors, words, decide = need('numbers'), need('errors'), need('words'), need('decide')
local notation, counter = need('notation'), need('counter')
local PERIOD_MOST = 3660 * 86400
local MOST = notation.most

local function read_quantity(reader)
	local text = reader.args[reader.at]
	if text == nil then
		return 1
	end
	local n = numbers.read(text:match('^%-?(.*)$'), 0, MOST)
	if not n then
		errors.raise('ERR quantity ' .. errors.shown(text) ..
			': expected a whole number from -4294967295 to 4294967295')
	end
	reader.at = reader.at + 1
	return text:sub(1, 1) == '-' and -n or n
end

local function seconds(ms)
	return math.ceil(ms / 1000)
end

return function(keys, reader)
	if #keys ~= 1 or #reader.args - reader.at > 3 then
		errors.raise('ERR expected one key, and max_burst count period [quantity]')
	end
	local limit = {algorithm = 'token-bucket'}
	limit.burst = words.number(reader, 'max_burst', 0, MOST - 1) + 1
	limit.quota = words.number(reader, 'count', 1, MOST)
	limit.window = words.number(reader, 'period', 1, PERIOD_MOST) * 1000
	local most = notation.derive(limit)
	if most then
		errors.raise('ERR these numbers leave the 53 bits that a script counts in: with a period of ' ..
			numbers.text(limit.window / 1000) .. ' s max_burst is at most ' .. numbers.text(most - 1) ..
			'; use a shorter period, or the module')
	end
	limit.kind = 'C'
	local quantity = read_quantity(reader)
	local call = {cost = math.abs(quantity), items = {{key = keys[1], limit = limit, field = counter.field(limit)}}}
	call.clock = words.clock({args = {}, at = 1})
	local op = quantity > 0 and decide.check or quantity == 0 and decide.peek or decide.refund
	local _, a = op(call)
	local retry = a.allowed == 1 and -1 or a.retry < 0 and -1 or seconds(a.retry)
	return {1 - a.allowed, a.quota, a.remaining, retry, seconds(a.reset)}
end
