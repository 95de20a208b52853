-- Asks sluice about a request, and leaves what it says in variables of the transaction:
--   sluice_denied  true: answer 429        sluice_down  true: it could not be asked
--   sluice_refused true: answer 400; the request itself is wrong, a header of it, say. Not the same as down: else
--                  whoever sends nonsense would pass where a sluice that is down lets everybody pass
--   sluice_retry, sluice_limit, sluice_policy, sluice_body: what the client should know
--   sluice_ticket: what the request holds until sluice_commit
-- Attributes that the policy finds in headers (attributes: user: header x-user-id) must be named here too: sluice is
-- sent nothing that the client wrote but these.
local forwarded = { "x-user-id", "x-plan" }
local timeout_ms = 150 -- the way to sluice in haproxy.cfg gives up sooner

core.register_action("sluice", { "http-req" }, function(txn)
	local headers = txn.http:req_get_headers()
	local host = headers["host"] and headers["host"][0] or ""
	local ask = {
		["x-forwarded-method"] = { txn.f:method() },
		["x-forwarded-uri"] = { txn.f:pathq() },
		["x-forwarded-host"] = { host },
		["x-forwarded-for"] = { txn.f:src() },
	}
	for _, name in ipairs(forwarded) do
		if headers[name] then
			local values = {}
			for i = 0, #headers[name] do
				values[#values + 1] = headers[name][i]
			end
			ask[name] = values -- several are refused: none may be chosen beside what a proxy in front added
		end
	end

	local address = txn:get_var("txn.sluice_address")
	local answer = core.httpclient():get({
		url = "http://" .. address .. "/v1/auth/forward?status=429", -- on-error: deny is a denial, too; 5xx is down
		headers = ask,
		timeout = timeout_ms,
	})
	local status = answer and answer.status or 0
	if status >= 400 and status < 500 and status ~= 429 then
		txn:set_var("txn.sluice_refused", true)
		return
	end
	if status ~= 200 and status ~= 429 then
		txn:set_var("txn.sluice_down", true)
		return
	end
	local function keep(variable, name)
		local values = answer.headers and answer.headers[name]
		if values and values[0] then
			txn:set_var("txn." .. variable, values[0])
		end
	end
	keep("sluice_limit", "ratelimit")
	keep("sluice_policy", "ratelimit-policy")
	keep("sluice_ticket", "sluice-ticket")
	if status == 429 then
		keep("sluice_retry", "retry-after")
		txn:set_var("txn.sluice_body", answer.body)
		txn:set_var("txn.sluice_denied", true)
	end
end, 0)

-- Says what the request has cost, when the app has answered: its header x-actual-cost, or 0. What the request held
-- is released, what it reserved is committed.
core.register_action("sluice_commit", { "http-res" }, function(txn)
	local said = txn.http:res_get_headers()["x-actual-cost"]
	local actual = said and said[0] or ""
	core.httpclient():get({
		url = "http://" .. txn:get_var("txn.sluice_address") .. "/v1/auth/commit",
		headers = {
			["sluice-ticket"] = { txn:get_var("txn.sluice_ticket") },
			["x-actual-cost"] = { actual ~= "" and actual or "0" },
		},
		timeout = timeout_ms,
	})
end, 0)
