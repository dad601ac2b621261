import type { RedisServer } from '../redis/redis-server.ts'
import { until } from '../until.ts'

/** Has Redis forget a key that is over, as it would after some months: an instance must be polling it. */
export async function forgetInRedis(redis: RedisServer, prefix: string, id: string): Promise<void> {
  const [entries, ends] = [`${prefix}{keys}:entries`, `${prefix}{keys}:ends`]
  const becomes = (isOver: (entry: string | null) => boolean): Promise<unknown> =>
    until(async () => {
      await redis.command('ZADD', ends, 'XX', '1', id)
      return isOver((await redis.command('HGET', entries, id)) as string | null)
    })
  await becomes((entry) => entry === null || entry.endsWith(' -'))
  await becomes((entry) => entry === null)
}
