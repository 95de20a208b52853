-- What is wrong with a text that notation.lua takes for no limit: refuses it, with the column and what was expected.
local errors, notation = need('errors'), need('notation')

local UNITS = {w = 604800000, d = 86400000, h = 3600000, m = 60000, s = 1000, ms = 1}
local FACTORS = {k = 1000, M = 1000000, G = 1000000000}
local OWNERS = {burst = 'token-bucket', queue = 'leaky-bucket', precision = 'sliding-buckets', edge = 'sliding-buckets',
	registers = 'distinct'}
local EXPECTED = {
	['token-bucket'] = "expected the option 'burst', once",
	['leaky-bucket'] = "expected the option 'queue', once",
	['sliding-buckets'] = "expected the options 'precision' and 'edge', once each",
	distinct = 'expected the end: options belong to quotas above 1024, up to there members are counted exactly',
}

-- A reader is {text, at, number}: number of the limit in its call.
local function fail(reader, at, expected)
	local word = reader.text:match('^[^ ]+', at) or reader.text:sub(at, at)
	local found = at > #reader.text and 'the end' or errors.shown(word, 40)
	errors.raise('limit ' .. reader.number .. ', column ' .. at .. ': ' .. expected .. ', found ' .. found)
end

-- Steps over a text that has to stand there; over a pattern, which it returns.
local function expect(reader, text, expected)
	if reader.text:sub(reader.at, reader.at + #text - 1) ~= text then
		fail(reader, reader.at, expected)
	end
	reader.at = reader.at + #text
end

local function match(reader, pattern, expected)
	local text = reader.text:match('^' .. pattern, reader.at)
	if not text then
		fail(reader, reader.at, expected)
	end
	reader.at = reader.at + #text
	return text
end

local function quota(reader, expected)
	local start = reader.at
	local n = tonumber(match(reader, '%d+', expected)) * (FACTORS[match(reader, '[kMG]?')] or 1)
	if n > 4294967295 then
		fail(reader, start, 'expected at most 4294967295')
	end
	return n
end

local function duration(reader, expected)
	local start = reader.at
	local n = tonumber(match(reader, '%d+', expected))
	local unit = reader.text:sub(reader.at, reader.at + 1)
	unit = unit == 'ms' and unit or unit:sub(1, 1)
	if not UNITS[unit] then
		fail(reader, reader.at, 'expected a unit of time: ms, s, m, h, d or w')
	end
	n = n * UNITS[unit]
	if n < 1 or n > 3660 * UNITS.d then
		fail(reader, start, 'expected a duration from 1ms to 3660d')
	end
	reader.at = reader.at + #unit
	return n
end

local function check_listed(reader, start, most, who)
	if most > notation.most_listed then
		fail(reader, start, 'expected at most ' .. notation.most_listed .. ' ' .. who ..
			' in a script: more need the module, or a server')
	end
end

-- The value of an option; what it says.
local function value(reader, name, window)
	local start = reader.at
	if name == 'edge' then
		local word = match(reader, '[^ ]*')
		if word ~= 'count' and word ~= 'drop' and word ~= 'weighted' then
			fail(reader, start, 'expected an edge: count, drop or weighted')
		end
	elseif name == 'precision' then
		local parts = window / duration(reader, 'expected a precision such as 1s')
		if parts % 1 ~= 0 then
			fail(reader, start, 'expected a precision that divides the window')
		elseif parts < 2 or parts > 4096 then
			fail(reader, start, 'expected a precision that divides the window into 2 to 4096 parts')
		end
	else
		local n = quota(reader, name == 'burst' and 'expected a burst such as 100 or 5k' or
			'expected a queue such as 50 or 5k')
		if name == 'burst' and n == 0 then
			fail(reader, start, 'expected a burst of at least 1')
		end
	end
end

local function options(reader, algorithm, most, window)
	local seen = {}
	while reader.at <= #reader.text do
		expect(reader, ' ', 'expected a space or the end')
		if reader.at > #reader.text then
			fail(reader, reader.at - 1, 'expected the end')
		end
		local name = reader.text:match('^[^ ]*', reader.at)
		if name == 'spread' and (algorithm == 'fixed-window' or algorithm == 'sliding-window') then
			fail(reader, reader.at, "expected the end: 'spread' needs the module, or a server")
		end
		if algorithm == 'distinct' or OWNERS[name] ~= algorithm or seen[name] then
			fail(reader, reader.at, EXPECTED[algorithm] or
				OWNERS[name] and "expected the end: '" .. name .. "' belongs to " .. OWNERS[name] .. ' ...' or
				'expected the end: this algorithm has no options')
		elseif most == 0 and algorithm ~= 'sliding-buckets' then
			fail(reader, reader.at, 'expected no option: a quota of 0 denies all and has none')
		end
		seen[name] = true
		reader.at = reader.at + #name
		expect(reader, ' ', "expected a space and the option's value")
		value(reader, name, window)
	end
	if algorithm == 'sliding-buckets' and not seen.precision then
		fail(reader, reader.at, "expected the option 'precision', such as precision 1s")
	end
end

local function rate(reader, algorithm)
	local start = reader.at
	local most = quota(reader, 'expected a quota such as 100 or 5k')
	expect(reader, '/', "expected '/' and a window such as 1m (multipliers: k, M, G)")
	local unit = reader.text:match('^%l+', reader.at)
	if unit and (' hour day week month year '):find(' ' .. unit .. ' ', 1, true) then
		fail(reader, reader.at, 'expected a window such as 10s or 1m: those of the calendar need the module, or a ' ..
			'server, since a script has no time zones')
	end
	local window = duration(reader, 'expected a window such as 10s or 1m')
	if algorithm == 'distinct' then
		check_listed(reader, start, most, 'members')
	end
	options(reader, algorithm, most, window)
	local leaky = algorithm == 'leaky-bucket'
	if leaky or algorithm == 'token-bucket' then
		errors.raise('limit ' .. reader.number .. ', ' .. errors.shown(reader.text) ..
			': its numbers leave the 53 bits that a script counts in: with a window of ' ..
			reader.text:match('/(%w+)') .. ' the ' .. (leaky and 'queue' or 'burst') .. ' is at most ' ..
			string.format('%.0f', notation.most_capacity(window) - (leaky and 1 or 0)) ..
			'; use a shorter window, or the module')
	end
end

-- Refuses the text, which is the `number`-th limit of its call.
return function(text, number)
	local reader, word = {text = text, at = 1, number = number}, text:match('^[^ ]*')
	local algorithm = word:find('^%d') and 'sliding-window' or word
	if not (', ' .. notation.words .. ', '):find(', ' .. algorithm .. ', ', 1, true) then
		fail(reader, 1, 'expected a limit such as 100/1m, or an algorithm: ' ..
			notation.words:gsub(', (%l+)$', ' or %1'))
	elseif algorithm == word then
		reader.at = #word + 1
		if word == 'unlimited' then
			fail(reader, reader.at, "expected nothing after 'unlimited'")
		end
		expect(reader, ' ', 'expected a space and a quota such as 100/1m')
	end
	if algorithm == 'concurrency' then
		local start = reader.at
		local most = quota(reader, 'expected how many may be in flight, such as 20')
		expect(reader, ' lease ', "expected the option 'lease' and its duration, such as lease 30s")
		duration(reader, 'expected how long a lease lasts, such as 30s')
		check_listed(reader, start, most, 'in flight')
	else
		rate(reader, algorithm)
	end
	fail(reader, reader.at, 'expected the end')
end
