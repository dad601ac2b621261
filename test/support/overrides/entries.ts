import fc from 'fast-check'
import type { OverrideChange, OverrideEntry, OverrideSubject } from '../../../src/overrides/override.ts'
import { anyText } from '../random/texts.ts'

/** Few subjects and moments, so that entries meet. */
export const entry: fc.Arbitrary<OverrideEntry> = entriesOf(
  fc.constantFrom<OverrideSubject>(
    'all_policies',
    { policy: 'api', rule: 'a', values: undefined },
    { policy: 'api', rule: 'a', values: { k: 'alice' } },
    { policy: 'api', rule: 'a', values: {} },
  ),
  fc.integer({ min: 1, max: 5 }),
  fc.constantFrom('x', 'y'),
)

/** Whatever an entry may say. */
export const anyEntry: fc.Arbitrary<OverrideEntry> = entriesOf(
  fc.oneof(
    fc.constant<OverrideSubject>('all_policies'),
    fc.record({ policy: anyText, rule: anyText, values: fc.option(fc.dictionary(anyText, anyText, { maxKeys: 3 }), { nil: undefined }) }),
  ),
  fc.integer({ min: 0, max: 8.64e15 }),
  anyText,
)

function entriesOf(
  subjects: fc.Arbitrary<OverrideSubject>,
  times: fc.Arbitrary<number>,
  texts: fc.Arbitrary<string>,
): fc.Arbitrary<OverrideEntry> {
  const change = fc.oneof(
    fc.record({ kind: fc.constant('multiply' as const), factor: fc.integer({ min: 1, max: 9 }) }),
    fc.record({ kind: fc.constant('set' as const), fields: fc.dictionary(texts, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 }) }),
    fc.constantFrom({ kind: 'unlimited' as const }, { kind: 'block' as const }, { kind: 'block' as const, cutsStreams: true as const }),
  )
  const override = fc
    .record({
      id: texts,
      subject: subjects,
      change: change as fc.Arbitrary<OverrideChange>,
      sinceMs: times,
      untilMs: times,
      createdMs: times,
      actor: texts,
      reason: texts,
    })
    .chain((one) =>
      fc.oneof(
        fc.constant(one),
        fc.record({ version: texts, actor: texts, reason: texts, atMs: times }).map((edit) => ({ ...one, edit })),
      ),
    )
    .map((one) => (one.subject === 'all_policies' ? { ...one, change: { kind: 'shadow' as const } } : one))
  return fc.oneof(
    fc.record({ kind: fc.constant('set' as const), momentMs: times, forgetMs: times, override }),
    fc.record({
      kind: fc.constant('ended' as const),
      momentMs: times,
      forgetMs: times,
      id: texts,
      subject: subjects,
      actor: texts,
      reason: texts,
    }),
  )
}
