-- What a key holds: for each counter a flat list of names and values, as maps come in version 2 of the protocol. The
-- words are the module's, in its order (hosts/redis/inspect.c); a name is given itself, of which the module keeps a
-- hash; the counter of an unnamed bucket goes by its rate, in hex.
local counter, notation, errors = need('counter'), need('notation'), need('errors')
local ALGORITHMS = {F = 'fixed-window', W = 'sliding-window', S = 'sliding-buckets', L = 'sliding-log',
	T = 'token-bucket', K = 'leaky-bucket', C = 'token-bucket', N = 'concurrency', D = 'distinct'}

-- The numbers that a field's name tells of its counter's limit, and its name; or nil where it is no counter's.
local function limit_of(field)
	local kind, window, rest = field:match('^([FWSLTKCND])(%d+)(.*)$')
	if not kind then
		return nil
	end
	local limit = {kind = kind, way = notation.way_of(kind), window = tonumber(window), quota = 0,
		capacity = 0, fine = true, edge = 'count'}
	local options, name = rest:match('^([^@]*)@(.*)$')
	limit.parts = tonumber((options or rest):match('^/(%d+)$'))
	limit.precision = limit.parts and limit.window / limit.parts
	limit.rate = tonumber((options or rest):match('^%*(%d+)$')) or 0
	return limit, name
end

-- How many leases are held, or members counted.
local function places(c, now)
	local way = c.limit.way
	if not c.s or not way.knows then
		return 0
	end
	local v = way.view(c.limit, c.s, now)
	return v.count or #v.live
end

-- What a script keeps nothing of stands there as 0, as it does for most counters of the module.
local function described(c, name, bytes, now)
	local kind = c.limit.kind
	local one = {'algorithm', ALGORITHMS[kind], 'window_ms', c.limit.window, 'precision_ms', c.limit.precision or 0,
		'belongs_to', name and 'policy' or kind == 'C' and 'cl.throttle' or 'limit', 'name',
		name or string.format('%016x', c.limit.rate),
		'last_ms', c.s and c.s.last or 0, 'block_bytes', bytes, 'holds', c.holds and #c.holds or 0, 'held', c.held,
		kind == 'D' and 'members' or 'leases', places(c, now), 'reservations', 0, 'reserved', 0, 'penalties', 0,
		'denials', 0, 'shut_out_until_ms', 0}
	if c.damaged then
		one[#one + 1] = 'damaged'
		one[#one + 1] = 1
	end
	return one
end

return function(keys, call)
	need('words').clock(call)
	if #keys ~= 1 or call.args[call.at] then
		errors.raise('ERR expected one key, and nothing after it')
	end
	local key, counters = keys[1], {}
	local fields = redis.pcall('HGETALL', key)
	if fields.err then
		error({sluice = fields.err}, 0)
	end
	local values, names = {}, {}
	for i = 1, #fields, 2 do
		values[fields[i]] = fields[i + 1]
		names[#names + 1] = fields[i]:gsub('^!', '')
	end
	table.sort(names)
	for i, field in ipairs(names) do
		local limit, name = limit_of(field)
		if limit and field ~= names[i - 1] then
			local c = counter.new(key, field, limit)
			local state, held = values[field] or false, values['!' .. field] or false
			counter.open(c, state, held, call.now)
			counters[#counters + 1] = described(c, name, #(state or '') + #(held or ''), call.now)
		end
	end
	return counters
end
