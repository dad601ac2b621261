import type { RedisServer } from '../support/redis/redis-server.ts'
import type { TcpGate } from '../support/redis/tcp-gate.ts'
import type { Round } from './scenario.ts'

/** Long enough for a busy machine, short enough for a Redis that is silent for longer. */
export const REDIS_TIMEOUT_MS = 800

type Trouble = (redis: RedisServer, gate: TcpGate, round: Round) => Promise<void>

const TROUBLES: Readonly<Record<string, Trouble>> = {
  async 'redis killed'(redis, _, { random, rest }) {
    await redis.stop()
    await rest(random.next() * 1000)
    await redis.start()
  },
  async 'redis paused'(redis, _, { random, rest }) {
    redis.pause()
    await rest(REDIS_TIMEOUT_MS * random.between(0.5, 2.5))
    redis.resume()
  },
  async 'redis flushed'(redis, _, { random, rest }) {
    for (let times = 1 + random.below(3); times > 0; times--) {
      await redis.command('FLUSHALL')
      await redis.command('SCRIPT', 'FLUSH')
      await rest(random.next() * 500)
    }
  },
  async 'redis cut off'(_, gate, { random, rest }) {
    for (let times = 1 + random.below(4); times > 0; times--) {
      // Some of them in the middle of an answer: what was asked for was done, and nobody is told.
      if (random.below(2) === 0) gate.cut()
      else void gate.cutAfterAnswerBytes(random.below(200))
      await rest(random.next() * 800)
    }
  },
  async 'redis slow'(_, gate, { random, rest }) {
    gate.delayMs = REDIS_TIMEOUT_MS * random.between(0.2, 1.5)
    await rest(2 * REDIS_TIMEOUT_MS)
    gate.delayMs = 0
  },
}

export const REDIS_TROUBLES: readonly string[] = Object.keys(TROUBLES)
/** After these Redis knows nothing of what was before. */
export const DATA_LOSSES: readonly string[] = ['redis killed', 'redis flushed']

/** Done when Redis is as it should be again; those who use it may need a moment more. */
export async function troubleRedis(trouble: string, redis: RedisServer, gate: TcpGate, round: Round): Promise<void> {
  try {
    await TROUBLES[trouble]!(redis, gate, round)
  } finally {
    gate.delayMs = 0
    redis.resume()
  }
}
