-- What a key holds: for each counter a flat list of names and values, as maps come in version 2 of the protocol.
local numbers, holds, counter = need('numbers'), need('holds'), need('counter')
local ALGORITHMS = {F = 'fixed-window', W = 'sliding-window', S = 'sliding-buckets', L = 'sliding-log',
	T = 'token-bucket', K = 'leaky-bucket', C = 'token-bucket'}

-- The numbers that a field's name tells of its counter's limit, or nil where it is no counter's.
local function limit_of(field)
	local kind, window, rest = field:match('^([FWSLTKC])(%d+)(.*)$')
	if not kind then
		return nil
	end
	local limit = {kind = kind, window = tonumber(window), quota = 0, capacity = 0, fine = true, edge = 'count'}
	local before, name = rest:match('^([^@]*)@(.*)$')
	local options = before or rest
	limit.parts = tonumber(options:match('^/(%d+)$'))
	limit.rate = tonumber(options:match('^%*(%d+)$'))
	limit.precision = limit.parts and limit.window / limit.parts
	return limit, name
end

-- What of a counter is used at the instant: cost that counts, or debt in whole units, rounded up.
local function used_of(limit, c, clock)
	if c.s.quota then
		limit.quota = c.s.quota
	end
	local v = c.way.view(limit, c.s, clock.now, clock.us)
	if v.debt then
		return math.ceil(v.debt / v.width)
	elseif v.full then
		return v.full + v.old
	elseif v.used then
		return v.used
	end
	return v.cur + (v.prev > 0 and numbers.share_up(v.prev, limit.window - v.e, limit.window) or 0)
end

return function(keys, reader)
	local clock = need('words').clock(reader)
	if #keys ~= 1 or reader.args[reader.at] then
		need('errors').raise('ERR expected one key, and nothing after it')
	end
	local key, counters = keys[1], {}
	local fields = counter.ask('HGETALL', key)
	local values, names = {}, {}
	for i = 1, #fields, 2 do
		values[fields[i]] = fields[i + 1]
		names[#names + 1] = fields[i]:gsub('^!', '')
	end
	table.sort(names)
	for i, field in ipairs(names) do
		local limit, name = limit_of(field)
		if limit and field ~= names[i - 1] then
			local c = {key = key, field = field, limit = limit, way = counter.way_of(limit.kind)}
			counter.open(c, values[field] or false, values['!' .. field] or false, clock.now, clock.us)
			local one = {'algorithm', ALGORITHMS[limit.kind], 'window_ms', limit.window}
			local function add(what, value)
				one[#one + 1] = what
				one[#one + 1] = value
			end
			if limit.precision then
				add('precision_ms', limit.precision)
			end
			if limit.rate then
				add('rate', limit.rate)
			end
			add('name', name or (limit.kind == 'C' and 'CL.THROTTLE' or ''))
			if c.damaged then
				add('damaged', 1)
			else
				add('last_ms', c.s.last)
				add('used', used_of(limit, c, clock))
				add('held', c.held)
				add('holds', c.holds and #c.holds or 0)
			end
			add('bytes', #(values[field] or '') + #(values['!' .. field] or ''))
			counters[#counters + 1] = one
		end
	end
	return counters
end
