import { Engine } from '../../../src/engine/engine.ts'
import { PlainRequestView } from '../../../src/request/view.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { mergedTop, type Top } from '../../../src/top/merged-top.ts'
import { TopCallers } from '../../../src/top/top-callers.ts'
import { bundle, policy } from '../bundles/bundles.ts'
import { planOf } from '../bundles/compiled-rule.ts'
import { ManualClock } from '../service/manual-clock.ts'

export const KEY = 'header:x-k'

const NEVER = new Promise(() => {})

/** An engine whose callers are watched, with a clock that moves when told. */
export class Watched {
  readonly clock = new ManualClock()
  readonly store = newEmbeddedStore(4 * 1024 * 1024)
  readonly top = new TopCallers({ store: this.store, hashKey: [1, 2], callerDigest: () => '0123456789abcdef' })
  readonly engine = new Engine({ store: this.store, clock: this.clock, callerWatch: this.top })

  constructor(...rules: readonly object[]) {
    this.engine.activate(planOf(bundle(1, policy('p', { rules }))))
  }

  ask(key: string, given = 1) {
    const decision = this.engine.decide(new PlainRequestView({ method: 'GET', uri: '/', headers: { 'x-k': key } }), { given })
    if (decision instanceof Promise) throw new Error('the store is in memory')
    return decision
  }

  async read(limit = Number.POSITIVE_INFINITY): Promise<Top> {
    const { engine, clock } = this
    return mergedTop([await this.top.report({}, engine.active, clock.nowMs(), clock.wallMs(), NEVER)], {}, limit)
  }

  async nearest(): Promise<string[]> {
    return (await this.read()).nearest.map(({ rule, values, remaining, limit }) => `${rule} ${values[KEY]} ${remaining}/${limit}`)
  }
}
