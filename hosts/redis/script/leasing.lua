-- ACQUIRE, RELEASE and RENEW: leases of limits of concurrency, with any other limits beside them.
local words, counter, decide, errors = need('words'), need('counter'), need('decide'), need('errors')
local leasing = {}

-- The 16 hex digits that an id stands for: itself, if it is written so.
local function number_of(id)
	return #id == 16 and not id:find('[^0-9a-f]') and id or redis.sha1hex(id):sub(1, 16)
end

-- An id that was not given before: of the instant, and of what is held already, which the next call finds changed.
local function made(call)
	local time, parts = redis.call('TIME'), {}
	for i, item in ipairs(call.items) do
		parts[i] = item.key .. '\0' .. (item.field or '') .. (item.counter and item.counter.raw or '')
	end
	return redis.sha1hex(time[1] .. '.' .. time[2] .. '\0' .. table.concat(parts)):sub(1, 16)
end

-- Whether the call asks for a lease: a candidate gets none.
local function asks(call)
	for _, item in ipairs(call.items) do
		if item.limit.kind == 'N' and not item.tried then
			return true
		end
	end
end

-- Whether each limit of concurrency that is enforced holds the lease already; then also what was granted: the cost or,
-- where the call takes part of it, what those hold.
local function is_held(call, cost)
	local leases, known, observed = 0, 0, 0
	for _, item in ipairs(call.items) do
		local limit = item.limit
		if limit.kind == 'N' and not item.tried then
			item.v = item.v or limit.quota > 0 and counter.view(item.counter, limit, call)
			local at = item.v and limit.steps.find(item.v, call.lease)
			local holds = at and 1 or 0
			if at and call.upto then
				local _, held = struct.unpack('<dI4', item.v.leases, at)
				cost = math.min(cost, held)
			end
			if item.observed then
				observed = observed + holds
			else
				leases, known = leases + 1, known + holds
			end
		end
	end
	return known == leases and known + observed > 0 and cost
end

-- ACQUIRE cost items
function leasing.acquire(call, keys)
	words.items(call, keys)
	if not asks(call) then
		errors.raise('no limit of concurrency among the limits: expected one, or SLUICE.CHECK')
	end
	local counters, asked, named = counter.load(call), call.cost, call.id
	call.id = named or made(call)
	call.lease = number_of(call.id)
	local allowed = decide.try_upto(call)
	local granted = allowed and asked > 0 and call.cost
	local repeated = named and is_held(call, asked)
	if repeated then
		granted, call.cost = repeated, 0
		decide.try_all(call)
	elseif granted then
		decide.charge(call)
		counter.save(call, counters)
	end
	return decide.reply(call, {granted or 0, repeated and 1 or 0, 0}, granted and call.id)
end

-- RELEASE id items, RENEW id items: of how many counters the lease was ended or, where it `renews`, lasts anew.
function leasing.change(call, keys, renews)
	local id, found = call.args[call.at], 0
	if not id or #id < 1 or #id > 64 then
		errors.raise('id ' .. (id and errors.shown(id) or 'is missing') .. ': expected 1 to 64 bytes')
	end
	call.at = call.at + 1
	words.items(call, keys)
	local counters = counter.load(call)
	for _, c in ipairs(counters) do
		local limit = c.limit
		if limit.kind == 'N' then
			local v = counter.view(c, limit, call)
			local raw = limit.steps.change(limit, v, number_of(id), renews)
			if raw then
				c.raw, c.changed, c.ends, found = raw, true, renews and need('expiry').ends(limit, v) or 0, found + 1
			end
		end
	end
	counter.save(call, counters)
	return found
end

return leasing
