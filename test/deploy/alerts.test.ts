import { load } from 'js-yaml'
import { describe, expect, test } from 'vitest'
import { readText } from '../docs/markdown.ts'
import { deployedRules, PROMETHEUS, RULE_FILES } from '../support/prometheus/deployed.ts'

const ALERTS = deployedRules().filter(({ alert }) => alert !== undefined)
const RUNBOOK = readText('docs/runbook.md')
const TESTS = readText(`${PROMETHEUS}/edge-rules-test.yml`)

describe('every alert', () => {
  test.each(ALERTS.map((rule) => [rule.alert!, rule] as const))(
    '%s says how bad it is, what it means and what to do',
    (name, { labels, annotations }) => {
      expect(['info', 'warning', 'critical']).toContain(labels!['severity'])
      expect(annotations!['summary']).toMatch(/^\S.*\.$/)
      expect(annotations!['description']).toMatch(/^\S.*\.$/)
      expect(annotations!['runbook_url']).toBe(`docs/runbook.md#${name.toLowerCase()}`)
      expect(RUNBOOK).toContain(`\n### ${name}\n`)
      // Where it fires, and where it does not: campaigns let promtool run these.
      expect(TESTS).toContain(`alertname="${name}"`)
    },
  )
})

test('the runbook has no other alerts', () => {
  const titles = Array.from(RUNBOOK.matchAll(/^### (Edge\w+)$/gm), ([, name]) => name)
  expect(titles).toEqual(ALERTS.map(({ alert }) => alert))
})

test('the example of a configuration loads the rules', () => {
  expect(load(readText(`${PROMETHEUS}/prometheus.yml`))).toMatchObject({ rule_files: RULE_FILES, scrape_configs: [{ job_name: 'edge' }] })
})
