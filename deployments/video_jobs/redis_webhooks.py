"""Messages about videos in Redis: the parts of the script that keep them, and how each command runs it.

A message is a hash; a sorted set holds the ids of those that wait by the time from which they are due. Owners' secrets are JSON in
one hash. The names `P`, `a`, `now`, `s`, `key`, `get`, `number`, `owned` and `ops` are those of `redis_script.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from deployments.video_jobs.refusals import no_message, not_found
from deployments.video_jobs.rows import message_of
from deployments.video_jobs.webhooks import (
    LOGGED,
    MOST_OF_OWNER,
    ClaimMessages,
    ForgetSecrets,
    ListMessages,
    NoteAttempt,
    ReadSecrets,
    ReplayMessage,
    RotateSecret,
    SigningSecret,
    WebhookCommand,
)
from kernels.errors import InvalidInputError

OUTBOX: Final = """
local function message_id(id, n) return 'msg_' .. id .. '_' .. n end
local function message_key(m) return P .. 'message:' .. m end
local function announce(id, state)
  local url = cjson.decode(get(id, 'spec')).webhook_url
  if not url or url == '' then return end
  local m = message_id(id, redis.call('HINCRBY', key(id), 'messages', 1))
  redis.call('HSET', message_key(m), 'job_id', id, 'owner', get(id, 'owner'), 'url', url, 'ended', state,
    'metadata', get(id, 'metadata'), 'created_at', s(now), 'state', 'waiting', 'attempt', '0', 'tries', '0')
  local failure = get(id, 'failure')
  if failure then redis.call('HSET', message_key(m), 'failure', failure) end
  redis.call('ZADD', P .. 'messages', s(now), m)
end
local function forget_messages(id)
  for n = 1, number(id, 'messages') do
    redis.call('DEL', message_key(message_id(id, n)))
    redis.call('ZREM', P .. 'messages', message_id(id, n))
  end
end
local function has_waiting_message(id)
  for n = 1, number(id, 'messages') do
    if redis.call('ZSCORE', P .. 'messages', message_id(id, n)) then return true end
  end
end
"""
"""Lua functions that write a message where a job ends, and remove it with the job."""
OPERATIONS: Final = f"""
local function message(m)
  local raw, found = redis.call('HGETALL', message_key(m)), {{}}
  for i = 1, #raw, 2 do found[raw[i]] = raw[i + 1] end
  found.id, found.due_at = m, redis.call('ZSCORE', P .. 'messages', m) or nil
  return found
end
function ops.claim_messages()
  local found, of = {{}}, {{}}
  for _, owner in ipairs(a.in_flight) do of[owner] = (of[owner] or 0) + 1 end
  for _, m in ipairs(redis.call('ZRANGEBYSCORE', P .. 'messages', '-inf', s(now))) do
    if #found >= a.most then break end
    local owner = redis.call('HGET', message_key(m), 'owner')
    if (of[owner] or 0) < {MOST_OF_OWNER} then
      of[owner] = (of[owner] or 0) + 1
      redis.call('ZADD', P .. 'messages', s(now + a.lease_s), m)
      redis.call('HINCRBY', message_key(m), 'attempt', 1)
      redis.call('HINCRBY', message_key(m), 'tries', 1)
      found[#found + 1] = message(m)
    end
  end
  return {{messages = found}}
end
function ops.note_attempt()
  local k = message_key(a.message_id)
  if redis.call('HGET', k, 'attempt') ~= tostring(a.attempt) or redis.call('HGET', k, 'state') ~= 'waiting' then
    return {{held = false}}
  end
  local log = cjson.decode(redis.call('HGET', k, 'log') or '[]')
  log[#log + 1] = {{at = now, status = a.status, note = a.note}}
  while #log > {LOGGED} do table.remove(log, 1) end
  redis.call('HSET', k, 'log', cjson.encode(log), 'state', a.state)
  if a.state == 'waiting' then
    redis.call('ZADD', P .. 'messages', s(now + a.again_s), a.message_id)
  else
    redis.call('ZREM', P .. 'messages', a.message_id)
  end
  return {{held = true}}
end
function ops.list_messages()
  if not owned() then return {{error = 'unknown'}} end
  local found = {{}}
  for n = 1, number(a.id, 'messages') do found[n] = message(message_id(a.id, n)) end
  return {{messages = found}}
end
function ops.replay_message()
  if not owned() then return {{error = 'unknown'}} end
  local n = number(a.id, 'messages')
  if n == 0 then return {{error = 'none'}} end
  local m = message_id(a.id, n)
  redis.call('HSET', message_key(m), 'state', 'waiting', 'tries', '0')
  redis.call('ZADD', P .. 'messages', s(now), m)
  return {{messages = {{message(m)}}}}
end
local function secrets()
  local valid = {{}}
  for _, one in ipairs(cjson.decode(redis.call('HGET', P .. 'secrets', a.owner) or '[]')) do
    if not one.expires_at or one.expires_at > now then valid[#valid + 1] = one end
  end
  return valid
end
local function keep_secrets(list)
  redis.call('HSET', P .. 'secrets', a.owner, cjson.encode(list))
  return {{secrets = list}}
end
function ops.read_secrets()
  local there = secrets()
  if #there == 0 then return keep_secrets({{{{text = a.fresh, created_at = now}}}}) end
  return {{secrets = there}}
end
function ops.forget_secrets()
  local there = secrets()
  redis.call('HDEL', P .. 'secrets', a.owner)
  return {{count = #there}}
end
function ops.rotate_secret()
  local list, before = {{{{text = a.fresh, created_at = now}}}}, secrets()[1]
  if before and a.overlap_s > 0 then
    before.expires_at = now + a.overlap_s
    list[2] = before
  end
  return keep_secrets(list)
end
"""
"""What each command about messages does."""


def handle(run: Callable[..., Any], command: WebhookCommand[Any]) -> Any:
    """Do what a command asks; errors are those of the command.

    Args:
        run: Runs an operation of the script: its name, the command, further values.
        command: The command.
    """
    match command:
        case ClaimMessages():
            values = {"lease_s": command.lease_s, "most": command.most, "in_flight": command.in_flight}
            found = run("claim_messages", command, **values)
        case NoteAttempt():
            return bool(run("note_attempt", command, **vars(command))["held"])
        case ListMessages():
            found = run("list_messages", command)
        case ReplayMessage():
            found = run("replay_message", command)
        case ForgetSecrets():
            return int(run("forget_secrets", command, **vars(command))["count"])
        case ReadSecrets() | RotateSecret():
            operation = "read_secrets" if isinstance(command, ReadSecrets) else "rotate_secret"
            return tuple(SigningSecret(**one) for one in run(operation, command, **vars(command))["secrets"])
        case _:  # while the service is changed, another version may ask
            raise InvalidInputError("command", type(command).__name__, "a command of this version")
    match found.get("error"):
        case "unknown":
            raise not_found(getattr(command, "job_id", ""))
        case "none":
            raise no_message()
    messages = tuple(message_of(one) for one in found["messages"] or ())
    return messages[0] if isinstance(command, ReplayMessage) else messages
