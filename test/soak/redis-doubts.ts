import type { Metrics } from '../support/service/metrics.ts'
import type { EdgeProcess } from './edge-process.ts'
import { REDIS_TROUBLES } from './redis-trouble.ts'

/** What some instances could not be sure of in a round. */
export class RedisDoubts {
  readonly #edges: readonly EdgeProcess[]
  readonly #lives: readonly number[]
  readonly #before: readonly Metrics[]

  private constructor(edges: readonly EdgeProcess[], before: readonly Metrics[]) {
    this.#edges = edges
    this.#lives = edges.map(({ lives }) => lives)
    this.#before = before
  }

  static async from(edges: readonly EdgeProcess[]): Promise<RedisDoubts> {
    return new RedisDoubts(edges, await Promise.all(edges.map((edge) => edge.metrics())))
  }

  /**
   * `hadFault`: each instance may have admitted the limit by itself, be it because of the trouble or because this machine stood still.
   * `lostTokens`: so many may have gone to nobody.
   */
  async since(trouble: string): Promise<{ hadFault: boolean; lostTokens: number }> {
    const after = await Promise.all(this.#edges.map((edge) => edge.metrics()))
    const counted = (start: string): number =>
      after.reduce((sum, metrics, i) => {
        const isSameLife = this.#edges[i]!.lives === this.#lives[i]
        return sum + metrics.sum(start) - (isSameLife ? this.#before[i]!.sum(start) : 0)
      }, 0)
    const hadFault = REDIS_TROUBLES.includes(trouble) || counted('edge_redis_errors_total') > 0
    const doubts = counted('edge_redis_doubts_total')
    const [leased, givenBack, lost] = ['leased', 'given_back', 'lost'].map((what) =>
      counted(`edge_redis_leased_tokens_total{what="${what}"}`),
    )
    // Whoever ends takes along what it held, and tells nobody how much that was.
    const isTold = !['worker death', 'restart', 'crash'].includes(trouble) && !hadFault
    return { hadFault, lostTokens: isTold ? doubts + lost! : doubts + lost! + Math.max(0, leased! - givenBack!) }
  }
}
