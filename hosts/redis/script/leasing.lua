-- ACQUIRE, RELEASE, RENEW and HOLDERS: leases of limits of concurrency, with any other limits beside them.
local words, counter, decide = need('words'), need('counter'), need('decide')
local errors, whose = need('errors'), need('whose')
local leasing = {}

-- An id that was not given before: of the instant, and of what is held already, which the next call finds changed.
local function made(call)
	local time, parts = redis.call('TIME'), {}
	for i, item in ipairs(call.items) do
		parts[i] = item.key .. '\0' .. item.field .. (item.counter and item.counter.limit.kind == 'N' and
			item.limit.way.encode(item.counter.s) or '')
	end
	return redis.sha1hex(time[1] .. '.' .. time[2] .. '\0' .. table.concat(parts)):sub(1, 16)
end

-- Whether the call asks for a lease, and whether each limit of concurrency holds it already.
local function look(call)
	local leases, known = 0, 0
	for _, item in ipairs(call.items) do
		if item.limit.kind == 'N' then
			leases = leases + 1
			known = known + (item.known and 1 or 0)
		end
	end
	return leases > 0, known == leases
end

function leasing.acquire(keys, call)
	call.cost = words.number(call, 'cost', 0, 4294967295)
	words.rest(call, keys)
	if not look(call) then
		errors.raise('ERR no limit of concurrency among the limits: expected one, or SLUICE.CHECK')
	end
	local counters = counter.load(call)
	call.lease = whose.id(call.id or made(call))
	local allowed, asked = decide.try_all(call), call.cost
	local _, repeated = look(call)
	if repeated and call.cost > 0 then
		call.cost, allowed = 0, true
		decide.try_all(call)
	elseif allowed and call.cost > 0 then
		decide.charge(call)
		counter.save(counters, call)
	end
	local reply, granted = decide.reply(call), allowed and (repeated or call.cost > 0)
	if call.each then
		reply[#reply + 1] = {granted and asked or 0, repeated and 1 or 0, 0}
	else
		reply[8] = granted and (call.id or call.lease)
	end
	return reply
end

-- Ends or renews the lease of an id; of how many counters it was.
local function change(keys, call, renews)
	local id, found = call.args[call.at], 0
	if not id or #id < 1 or #id > 64 then
		errors.raise('ERR id ' .. (id and errors.shown(id) or 'is missing') .. ': expected 1 to 64 bytes')
	end
	call.at, call.each = call.at + 1, nil
	words.rest(call, keys)
	local counters = counter.load(call)
	for _, c in ipairs(counters) do
		local limit = c.limit
		if limit.kind == 'N' and c.s and
			limit.way.change(limit, c.s, limit.way.view(limit, c.s, call.now), whose.id(id), renews) then
			c.charged, c.changed, found = true, true, found + 1
		end
	end
	if found > 0 then
		counter.save(counters, call)
	end
	return found
end

function leasing.release(keys, call)
	return change(keys, call, false)
end

function leasing.renew(keys, call)
	return change(keys, call, true)
end

function leasing.holders(keys, call)
	call.each = nil
	words.rest(call, keys)
	local item, rows = call.items[1], {}
	if call.items[2] or item.limit.kind ~= 'N' then
		errors.raise('ERR expected one limit of concurrency: others have no holders')
	end
	counter.load(call)
	local v = item.limit.way.view(item.limit, item.counter.s, call.now)
	for i, one in ipairs(v.live) do
		rows[i] = {one.id, one.cost, one.ends - v.t}
	end
	return rows
end

return leasing
