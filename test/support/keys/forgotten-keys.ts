import type { RedisServer } from '../redis/redis-server.ts'
import { until } from '../until.ts'
import type { KeyInstance } from './key-instance.ts'

/** Ends a key now, unless what is remembered of it is only that it was forgotten. */
const END_KEY = `
  local entry = redis.call('HGET', KEYS[1], ARGV[1])
  if not entry or string.sub(entry, -2) == ' -' then return 'forgotten' end
  redis.call('ZADD', KEYS[2], 'XX', '1', ARGV[1])
  return 'ended'`

/**
 * Has Redis forget a key that is over, as it would after some months: these instances are polling it. Between the two steps, for which it takes months, all of
 * them hear of the first: one that did not would bring the key back.
 */
export async function forgetInRedis(redis: RedisServer, prefix: string, id: string, instances: readonly KeyInstance[]): Promise<void> {
  const [entries, ends] = [`${prefix}{keys}:entries`, `${prefix}{keys}:ends`]
  await until(async () => (await redis.command('EVAL', END_KEY, '2', entries, ends, id)) === 'forgotten')
  await until(() => instances.every(({ table }) => !table.has(id)))
  await redis.command('ZADD', ends, 'XX', '1', id)
  await until(async () => (await redis.command('HGET', entries, id)) === null)
}
