import { descriptorOf, type LimitDescriptor, type LimitResult } from '../../../src/engine/descriptors/descriptor-call.ts'
import { Engine } from '../../../src/engine/engine.ts'
import { compileBundle } from '../../../src/policy/compile.ts'
import { parseBundle } from '../../../src/policy/parse.ts'
import type { CounterStore } from '../../../src/store/counter-store.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { ManualClock } from '../service/manual-clock.ts'

/** An engine with this bundle, and a clock that moves when told. */
export function limitEngine(bundle: object, store: CounterStore = newEmbeddedStore(256 * 1024)): { engine: Engine; clock: ManualClock } {
  const parsed = parseBundle(JSON.stringify(bundle))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const clock = new ManualClock()
  const engine = new Engine({ store, clock })
  engine.activate(compileBundle(parsed.bundle))
  return { engine, clock }
}

/** A descriptor from a text such as `user=alice plan=free`. */
export function descriptor(text: string, hits = 1, isGivenBack = false): LimitDescriptor {
  const entries = text === '' ? [] : text.split(' ').map((entry) => entry.split('=') as [string, string])
  const found = descriptorOf(
    entries.map(([key]) => key),
    entries.map(([, value]) => value),
    hits,
    isGivenBack,
  )
  if (found === undefined) throw new Error(`an ambiguous descriptor: ${text}`)
  return found
}

/** What came of a call: its action, and for each descriptor whether it is over, its rule and what remains. */
export function told({ decision, statuses }: LimitResult): string {
  const each = statuses.map(({ isOver, rule, remaining }) => `${isOver ? 'over' : 'ok'} ${rule?.name ?? '-'} ${remaining}`)
  return [decision.action, ...each].join(', ')
}
