-- The commands: what each reads, and what answers it. A refusal is caught here, and answered as an error of Redis.
-- Checks and peeks of windows, sub-buckets and logs of one key, which nearly all calls are, go straight (direct.lua),
-- and so do those with buckets among them (plain.lua); what the others need is made when one of them comes. A call: its
-- `word`, `args`, of which the next one stands `at`, the words that it `takes`; `full`, `outgrown`: room.lua.
local function serve(word, keys, args, at, full, outgrown)
	local straight = (word == 'check' or word == 'peek') and not outgrown
	local reply = straight and need('plain')(keys, args, at, word == 'check')
	if reply then
		return reply
	end
	local words = need('words')
	local call = {word = word:upper(), args = args, at = at, cost = 0, now = 0, us = 0, set = false, items = false,
		takes = '', full = full, outgrown = outgrown}
	if word ~= 'reset' and word ~= 'cancel' and word ~= 'lease' and word ~= 'release' and word ~= 'renew' then
		call.cost = words.number(call, 'cost', 0, 4294967295)
	end
	call.leases = word == 'acquire' or word == 'release' or word == 'renew' or word == 'peek' or word == 'reset'
	if word == 'check' or word == 'peek' then
		call.takes = word == 'check' and ' EACH EXACT NEXT MEMBER UPTO ID ' or ' EACH EXACT NEXT MEMBER UPTO BESIDE '
		words.items(call, keys)
		return need('decide').check(call, word == 'check')
	elseif word == 'refund' then
		call.takes = ' EACH EXACT NEXT MEMBER '
		return need('undo').refund(call, keys)
	elseif word == 'reset' then
		return need('undo').reset(call, keys)
	elseif word == 'acquire' then
		call.takes = ' EACH EXACT NEXT MEMBER UPTO ID '
		return need('leasing').acquire(call, keys)
	elseif word == 'release' or word == 'renew' then
		return need('leasing').change(call, keys, word == 'renew')
	end
	call.holds, call.settles = true, word == 'confirm' or word == 'lease'
	call.takes = word == 'hold' and ' EACH EXACT UPTO ' or word == 'confirm' and ' EACH EXACT KEEP ' or ''
	return need('holding')[word](call, keys)
end

-- What there is, and where else what there is not.
local function refuse(word)
	local what = 'expected a command as the first argument: CHECK, '
	if word == 'throttle' or word == 'inspect' or word == 'holders' then
		what = word:upper() .. ' needs the module (sluice-module.so) or a server: a script has CHECK, '
	elseif word == 'reserve' or word == 'commit' then
		what = 'reservations need the module (sluice-module.so) or a server: a script has CHECK, '
	elseif word == 'override' then
		what = "quotas of keys' own need the module (sluice-module.so) or a server: a script has CHECK, "
	end
	return {err = 'ERR ' .. what .. 'PEEK, REFUND, RESET, ACQUIRE, RELEASE, RENEW, HOLD, CONFIRM, CANCEL, LEASE and ' ..
		'VERSION'}
end

local function is_command(word)
	return word == 'check' or word == 'peek' or word == 'refund' or word == 'reset' or word == 'hold' or
		word == 'confirm' or word == 'cancel' or word == 'lease' or word == 'acquire' or word == 'release' or
		word == 'renew'
end

-- Runs a command by its word; `keys` and `args` as Redis hands them over, `at` where the command's arguments begin.
return function(word, keys, args, at)
	if word == 'version' then
		return VERSION
	elseif not is_command(word) then
		return refuse(word)
	elseif not keys[1] then
		return {err = 'ERR no key: expected the keys of the limits, and their number in front of them'}
	end
	local ok, reply = pcall(serve, word, keys, args, at)
	if not ok and type(reply) == 'table' and not reply.sluice then
		ok, reply = need('room').again(serve, reply, word, keys, args, at)
	end
	if ok then
		return reply
	elseif type(reply) == 'table' and reply.sluice then
		return {err = reply.sluice}
	end
	error(reply, 0)
end
