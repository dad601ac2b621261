import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readConfiguration } from '../../src/cli/ratelimit/configuration.ts'
import { NameList, translate } from '../../src/cli/ratelimit/translation.ts'
import { descriptorOf, type LimitResult } from '../../src/engine/descriptors/descriptor-call.ts'
import { Engine } from '../../src/engine/engine.ts'
import { compileBundle } from '../../src/policy/compile.ts'
import { parseBundle } from '../../src/policy/parse.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { CONFIGURATION, DESCRIPTOR, type Entries, type Written } from '../support/ratelimit/configurations.ts'
import { runs } from '../support/run/property-runs.ts'
import { ManualClock } from '../support/service/manual-clock.ts'

test('a converted configuration admits what envoyproxy/ratelimit admits, descriptor by descriptor', () => {
  fc.assert(
    fc.property(CONFIGURATION, fc.array(DESCRIPTOR, { minLength: 30, maxLength: 40 }), (written, calls) => {
      const engine = new Engine({ store: newEmbeddedStore(256 * 1024), clock: new ManualClock() })
      engine.activate(planOf(written))
      const model = new Ratelimit(written)
      for (const entries of calls) {
        const { statuses } = engine.decideDescriptors({ domain: 'd', descriptors: [callOf(entries)] }) as LimitResult
        const { isOver, stated, remaining } = statuses[0]!
        const expected = model.ask(entries)
        expect({ entries, isOver, limit: isOver ? undefined : stated?.count, remaining }).toEqual({
          entries,
          ...expected,
          remaining: expected.remaining ?? remaining,
        })
      }
    }),
    { numRuns: runs(10) },
  )
})

function planOf(descriptors: readonly Written[]) {
  const read = readConfiguration(JSON.stringify({ domain: 'd', descriptors }))
  if (!('configuration' in read)) throw new Error(JSON.stringify(read.problems))
  const { policies, gaps } = translate(read.configuration, new NameList())!
  expect(gaps).toEqual([])
  const parsed = parseBundle(JSON.stringify({ bundle_version: 1, policies }))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}

function callOf(entries: Entries) {
  return descriptorOf(
    entries.map(([key]) => key),
    entries.map(([, value]) => value),
    1,
    false,
  )!
}

/** How envoyproxy/ratelimit looks a limit up and counts, within one window. */
class Ratelimit {
  readonly #top: readonly Written[]
  readonly #counts = new Map<string, number>()

  constructor(top: readonly Written[]) {
    this.#top = top
  }

  ask(entries: Entries): { isOver: boolean; limit: number | undefined; remaining?: number } {
    let [list, found]: [readonly Written[], Written | undefined] = [this.#top, undefined]
    const counter: string[] = []
    for (const [key, value] of entries) {
      found = pick(list, key, value)
      if (found === undefined) return { isOver: false, limit: undefined }
      counter.push(key, found.share_threshold ? found.value! : value)
      list = found.descriptors
    }
    const { rate_limit, shadow_mode } = found!
    if (rate_limit === undefined || (shadow_mode && !rate_limit.unlimited)) return { isOver: false, limit: undefined }
    if (rate_limit.unlimited) return { isOver: false, limit: undefined, remaining: Number.POSITIVE_INFINITY }
    const max = rate_limit.requests_per_unit!
    const used = this.#counts.get(counter.join(' ')) ?? 0
    if (used >= max) return { isOver: true, limit: undefined, remaining: 0 }
    this.#counts.set(counter.join(' '), used + 1)
    return { isOver: false, limit: max, remaining: max - used - 1 }
  }
}

function pick(list: readonly Written[], key: string, value: string): Written | undefined {
  const same = list.filter((each) => each.key === key)
  return (
    same.find((each) => each.value === value) ??
    same.find((each) => each.value?.endsWith('*') && value.startsWith(each.value.slice(0, -1))) ??
    same.find((each) => each.value === undefined)
  )
}
