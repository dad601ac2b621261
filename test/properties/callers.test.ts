import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Decision } from '../../src/engine/decision.ts'
import { Engine } from '../../src/engine/engine.ts'
import { PlainRequestView } from '../../src/request/view.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { bundle } from '../support/bundles/bundles.ts'
import { planOf } from '../support/bundles/compiled-rule.ts'
import { CALLERS, GoodCallers } from '../support/callers/good-callers.ts'
import { policiesOf, requestOf } from '../support/random/policies-and-requests.ts'
import { runs } from '../support/run/property-runs.ts'
import { ManualClock } from '../support/service/manual-clock.ts'

const TOKENS = ['good:ada:blue', 'expired', 'keys_unavailable', undefined] as const
const EARLY = ['missing_original_host', 'blocked']

test('callers in enforce mode change nothing for verified callers, and the others take nothing', () => {
  const sent = fc.array(fc.tuple(requestOf(), fc.constantFrom(...TOKENS)), { minLength: 1, maxLength: 12 })
  fc.assert(
    fc.property(policiesOf(), sent, (policies, requests) => {
      const plain = engineOf(bundle(1, ...policies))
      const enforcing = engineOf({ ...bundle(1, ...policies), callers: { ...CALLERS, mode: 'enforce' } })
      for (const [{ method, uri, headers = {}, host = '' }, token] of requests) {
        const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
        const view = new PlainRequestView({ method, uri, host, headers: { ...headers, ...authorization } })
        const got = told(enforcing.decide(view) as Decision)
        const isKnown = token?.startsWith('good:') === true
        // A request that is refused takes nothing, so that without callers it need not be sent at all.
        const expected = told((isKnown ? plain.decide(view) : plain.decide(view, { looks: true })) as Decision)
        if (isKnown || (expected.action !== 'allow' && EARLY.includes(expected.reason))) expect(got).toEqual(expected)
        else expect(got.reason).toBe(token === 'keys_unavailable' ? 'caller_keys_unavailable' : 'unknown_caller')
      }
    }),
    { numRuns: runs(60) },
  )
})

function engineOf(published: object): Engine {
  const engine = new Engine({ store: newEmbeddedStore(1 << 20), clock: new ManualClock(), callerReaderOf: () => new GoodCallers() })
  engine.activate(planOf(published))
  return engine
}

function told(decision: Decision) {
  if (decision.action === 'refuse') return { action: decision.action, reason: decision.reason }
  const { action, reason, rule, limit, wouldRejects, missingKeys } = decision
  return {
    action,
    reason,
    rule: rule?.name,
    left: limit?.remaining,
    wouldRejects: wouldRejects.map((each) => each.rule.name),
    missingKeys,
  }
}
