-- CHECK and PEEK with UPTO or ID: what decide.check does, and what those words add. With EACH the row behind those of
-- the limits says what was granted, and whether it had been before.
local counter, decide = need('counter'), need('decide')

local function repeated(call, was)
	call.cost = 0
	counter.load(call)
	decide.try_all(call)
	for _, item in ipairs(call.items) do
		if item.limit.kind == 'K' then
			item.delay = math.max(0, was.leaves - call.now)
		end
	end
	local reply = decide.reply(call)
	if call.each then
		reply[#reply + 1] = {was.granted, 1, 0}
		return reply
	end
	if call.upto then
		reply[8] = was.granted
	end
	return reply
end

return function(call, writes)
	local was = call.id and need('tokens').find(call)
	if was then
		return repeated(call, was)
	end
	local counters, asked = counter.load(call), call.cost
	local allowed = decide.try_all(call)
	if call.upto and asked > 0 then
		call.cost = math.max(1, need('largest')(call))
		allowed = decide.try_all(call)
	end
	local charges = allowed and writes and call.cost > 0
	if charges then
		decide.charge(call)
		counter.save(counters, call)
	end
	local reply = decide.reply(call)
	if charges and call.id then
		local delay = 0
		for _, item in ipairs(call.items) do
			delay = item.observed and delay or math.max(delay, item.delay)
		end
		need('tokens').note(call, call.cost, delay)
	end
	local granted = allowed and asked > 0 and call.cost or 0
	if call.each then
		reply[#reply + 1] = {granted, 0, 0}
	elseif call.upto then
		reply[8] = granted
	end
	return reply
end
