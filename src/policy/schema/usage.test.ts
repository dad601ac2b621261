import { describe, expect, test } from 'vitest'
import { bundle } from '../../../test/support/bundles/bundles.ts'
import { policiesHash } from '../../bundle/policies-hash.ts'
import { bundleChanges } from '../bundle-changes.ts'
import { compileBundle } from '../compile.ts'
import { parseBundle } from '../parse.ts'
import type { Bundle } from './bundle.ts'

function parsed(usage: unknown, more: object = {}): ReturnType<typeof parseBundle> {
  return parseBundle(JSON.stringify({ ...bundle(1), ...more, usage }))
}

function problemsOf(usage: unknown, more: object = {}): string[] {
  const result = parsed(usage, more)
  return result.ok ? [] : result.problems.map(({ path, message }) => `${path}: ${message}`)
}

function bundleOf(usage: unknown): Bundle {
  const result = parsed(usage)
  if (!result.ok) throw new Error('it is refused')
  return result.bundle
}

describe('labels', () => {
  test('are descriptor keys of requests, each once', () => {
    expect(problemsOf({ labels: ['header:x-team', 'llm:model', 'bearer'] })).toEqual([])
    expect(problemsOf({})).toEqual([])
    expect(problemsOf({ labels: ['header:x-team', 'header:X-Team'] })).toEqual([
      'usage.labels[1]: "header:X-Team" is already named by usage.labels[0]',
    ])
    expect(problemsOf({ labels: ['descriptor:user'] })).toEqual([
      'usage.labels[0]: expected a key of requests, got "descriptor:user": only calls of the rate limit service have descriptors',
    ])
    expect(problemsOf({ labels: ['team'] })[0]).toMatch(/^usage\.labels\[0\]: expected .+ got "team"/)
    expect(problemsOf({ labels: 'header:x-team' })[0]).toMatch(/^usage\.labels: expected a list of descriptor keys/)
    expect(problemsOf({ labels: Array.from({ length: 17 }, (_, i) => `header:x-${i}`) })[0]).toMatch(
      /^usage\.labels: expected at most 16 keys/,
    )
    expect(problemsOf(['bearer'])[0]).toMatch(/^usage: expected an object with labels/)
    expect(problemsOf({ label: ['bearer'] })[0]).toContain('did you mean "labels"?')
  })

  test('of callers need a bundle that knows callers, and its labels', () => {
    expect(problemsOf({ labels: ['caller:team'] })[0]).toMatch(/^usage\.labels\[0\]: "caller:team" needs `callers` in the bundle/)
    const callers = { mode: 'enforce', keys: { from: ['header:x-key'] } }
    expect(problemsOf({ labels: ['caller:team'] }, { callers })).toEqual([])
    expect(problemsOf({ labels: ['header:x-key'] }, { callers })[0]).toContain('carries issued keys')
  })

  test('are keys of the plan, apart from those that decide', () => {
    const plan = compileBundle(bundleOf({ labels: ['header:X-Team'] }))
    expect(plan.keys.map(({ text }) => text)).toEqual(['header:x-team'])
    expect(plan.decidingKeys).toEqual([])
    expect(plan.usageLabels).toEqual([0])
  })
})

test('a change of labels is a change of the bundle', () => {
  const [before, after] = [bundleOf({ labels: ['bearer'] }), bundleOf({ labels: ['bearer', 'llm:model'] })]
  const changes = bundleChanges(before, after)
  expect([changes.usage, changes.callers, changes.routing]).toEqual([true, false, false])
  expect(changes.usage_changes).toEqual([{ field: 'labels', before: '["bearer"]', after: '["bearer","llm:model"]' }])
  expect(bundleChanges(after, after).usage).toBe(false)
  expect(policiesHash(before)).not.toBe(policiesHash(after))
})
