import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, jwt, llmRule, policy } from '../../test/support/bundles/bundles.ts'
import { descriptor } from '../../test/support/rate-limit/limit-engine.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../test/support/store/async-store.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import type { Plan } from '../policy/plan.ts'
import { defaultIdentification } from '../request/descriptors.ts'
import { PlainRequestView } from '../request/view.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { type EmbeddedStore, newEmbeddedStore } from '../store/table/embedded-store.ts'
import { Engine } from './engine.ts'
import { RunPool } from './run.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const AT_ONCE = 50

/** Looking for garbage takes a tenth of a second of CPU time: it is looked for once, after what all tests here are about. */
describe('what is over', () => {
  const together = newScene(new AsyncStore())
  const overtaken = newScene(new AsyncStore())
  const called = newScene(new AsyncStore())
  const looked = newScene(newEmbeddedStore(64 * 1024))

  beforeAll(async () => {
    await decideOnce(together)
    await decideOnce(overtaken, () => overtaken.engine.activate(newPlan(2)))
    await callOnce(called)
    lookOnce(looked)
    await collect([...together.gone.slice(1), ...overtaken.gone, ...called.gone, ...looked.gone])
  })

  test('decisions that are over keep neither their requests nor their plan alive, however many were under way together', async () => {
    const { engine, gone } = together
    expect(gone).toHaveLength(3 * AT_ONCE + 1)
    const [plan, ...requests] = gone
    expect(survivors(requests)).toBe(0)
    expect(plan!.deref()).toBeDefined()
    engine.activate(newPlan(2))
    void engine.decide(new PlainRequestView({ method: 'GET', uri: '/' }))
    await collect([plan!])
    expect(survivors([plan!])).toBe(0)
  })

  test('decisions that a new plan has overtaken keep neither alive when they are over', () => {
    expect(overtaken.engine.plan!.version).toBe(2n)
    expect(overtaken.gone).toHaveLength(3 * AT_ONCE + 1)
    expect(survivors(overtaken.gone)).toBe(0)
  })

  test('calls of the rate limit service that a new plan has overtaken do not keep theirs alive, once there is another call', () => {
    expect(called.engine.plan!.version).toBe(2n)
    // The plan and its policies, the call, its result.
    expect(called.gone).toHaveLength(6)
    expect(survivors(called.gone)).toBe(0)
  })

  test('a request that is refused or only looked at is let go of too, with the counters of its plan', () => {
    // Seven counters, the plan, three requests.
    expect(looked.gone).toHaveLength(11)
    expect(survivors(looked.gone)).toBe(0)
  })
})

test('at most 64 runs wait for the next decision', () => {
  const pool = new RunPool(defaultIdentification())
  const runs = Array.from({ length: 100 }, () => pool.take())
  for (const run of runs) pool.giveBack(run)
  const again = new Set(Array.from({ length: 100 }, () => pool.take()))
  expect(runs.filter((run) => again.has(run))).toHaveLength(64)
})

interface Scene<Store extends CounterStore> {
  readonly store: Store
  /** It outlives what is over. */
  readonly engine: Engine
  readonly gone: WeakRef<object>[]
}

function newScene<Store extends CounterStore>(store: Store): Scene<Store> {
  return { store, engine: new Engine({ store, clock: new ManualClock() }), gone: [] }
}

/** Lets go of what nobody can reach. What is awaited may hold on to something for a turn or two. */
async function collect(refs: readonly WeakRef<object>[]): Promise<void> {
  for (let turn = 0; turn < 5 && survivors(refs) > 0; turn++) {
    await new Promise(setImmediate)
    collectGarbage()
  }
}

function survivors(refs: readonly WeakRef<object>[]): number {
  return refs.filter((ref) => ref.deref() !== undefined).length
}

/** Everything that it names goes out of scope with it. */
async function decideOnce({ engine, store, gone }: Scene<AsyncStore>, meanwhile = () => {}): Promise<void> {
  engine.activate(newPlan(1))
  gone.push(new WeakRef(engine.plan!))
  const decisions = Array.from({ length: AT_ONCE }, (_, i) => {
    const headers = { 'x-key': `k${i}`, authorization: `Bearer ${jwt({ sub: `s${i}` })}`, 'x-forwarded-for': '203.0.113.7' }
    const view = new PlainRequestView({ method: 'POST', uri: `/${i}`, headers })
    const llm = { promptTokens: 1, requestedTokens: 1, choices: 1, isStream: false, model: undefined }
    gone.push(new WeakRef(view), new WeakRef(llm))
    return engine.decide(view, { withDescriptors: true, body: llm })
  })
  meanwhile()
  void engine.decide(new PlainRequestView({ method: 'GET', uri: '/' }))
  await store.answerAll((count) => count - 1)
  for (const decision of await Promise.all(decisions)) gone.push(new WeakRef(decision))
}

async function callOnce({ engine, store, gone }: Scene<AsyncStore>): Promise<void> {
  const plan = newPlan(1)
  engine.activate(plan)
  gone.push(new WeakRef(plan), ...plan.policies.map((each) => new WeakRef(each)))
  const call = { domain: 'd', descriptors: [descriptor('user=a'), descriptor('user=b')] }
  gone.push(new WeakRef(call))
  const result = engine.decideDescriptors(call)
  engine.activate(newPlan(2))
  await store.answerAll(() => 0)
  gone.push(new WeakRef(await result))
  void engine.decideDescriptors({ domain: 'd', descriptors: [descriptor('user=a')] })
}

/** Leaves the counters and the plan that were active, and the requests. */
function lookOnce({ engine, store, gone }: Scene<EmbeddedStore>): void {
  const open = store.open.bind(store)
  store.open = (spec) => {
    const counter = open(spec)
    gone.push(new WeakRef(counter))
    return counter
  }
  engine.activate(newPlan(1))
  gone.push(new WeakRef(engine.plan!))
  for (const headers of [{ 'x-key': 'a', 'x-forwarded-for': '203.0.113.7' }, { 'x-key': ['a', 'b'] }, {}]) {
    const view = new PlainRequestView({ method: 'POST', uri: '/', headers })
    gone.push(new WeakRef(view))
    engine.decide(view)
    engine.open(view)!.needsBody()
    engine.open(view)!.precheck()
    engine.explain(view)
  }
  // Those of the new plan stay.
  store.open = open
  engine.activate(newPlan(2))
  // It takes the place of the other one when it is asked for.
  expect(engine.plan!.version).toBe(2n)
}

function newPlan(version: number): Plan {
  const rules = [
    bucketRule('a', ['header:x-key', 'ip:address'], 100),
    bucketRule('b', ['jwt:sub', 'header:x-absent'], 100),
    llmRule('c', ['bearer'], { tokens_per_minute: 1000 }),
  ]
  const limits = policy('d', { selector: { domain: 'd' }, rules: [bucketRule('d', ['descriptor:user'], 100)] })
  const parsed = parseBundle(JSON.stringify(bundle(version, policy('p', { rules }), policy('s', { mode: 'shadow', rules }), limits)))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}
