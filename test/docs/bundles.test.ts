import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parseBundle } from '../../src/policy/parse.ts'
import { formatOf } from '../../src/policy/schema/bundle.ts'
import { formatProblem, type Problem } from '../../src/text/problem.ts'
import { codeBlocks, markdownFiles, ROOT, readText } from './markdown.ts'

const exampleNames = readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' }).filter(
  (name) => /\.(json|ya?ml)$/.test(name) && !name.endsWith('.cases.yaml') && !name.startsWith('gateways/'),
)

test('there are examples in JSON and in YAML', () => {
  expect(new Set(exampleNames.map(formatOf))).toEqual(new Set(['json', 'yaml']))
})

test.each(exampleNames)('examples/%s is a bundle without problems or warnings', (name) => {
  expect(complaints(readText(`examples/${name}`), formatOf(name))).toEqual([])
})

const POLICY_PAGES = markdownFiles('docs/policy')
const PAGES = ['README.md', 'docs/getting-started.md', 'docs/callers.md', 'docs/backends.md', ...POLICY_PAGES]

const snippets = PAGES.flatMap((file) =>
  (['json', 'yaml'] as const).flatMap((format) =>
    codeBlocks(readText(file), format).map((text, index) => ({ file, format, number: index + 1, text })),
  ),
)

test('the README, the tours and the policy reference show bundles', () => {
  const shown = new Set(snippets.map(({ file }) => file))
  expect(PAGES.filter((file) => !shown.has(file))).toEqual(['docs/policy/keys.md'])
})

test.each(snippets)('$format snippet $number of $file is a bundle without problems or warnings', ({ text, format }) => {
  expect(complaints(text, format)).toEqual([])
})

test('no bundle of any page has a limit that clients escape by leaving out its key', () => {
  const shown = markdownFiles('docs').flatMap((file) =>
    (['json', 'yaml'] as const).flatMap((format) => codeBlocks(readText(file), format).map((text) => ({ file, format, text }))),
  )
  // One page shows how cases find out about it.
  const bundles = shown.filter(
    ({ file, text }) => text.includes('bundle_version') && text.includes('policies') && file !== 'docs/testing-policies.md',
  )
  expect(bundles.length).toBeGreaterThan(20)
  const escaped = bundles.flatMap(({ file, text, format }) =>
    complaints(text, format)
      .filter((complaint) => complaint.includes('a client that leaves out'))
      .map((complaint) => `${file}: ${complaint}`),
  )
  expect(escaped).toEqual([])
})

/** What a gateway verifies or sets is not in a bundle: the page around the snippet says so. */
const GATEWAYS_WARNING = /: a client that sends this value itself can .*: (?:let the gateway|the signature)/

function complaints(text: string, format: 'json' | 'yaml'): string[] {
  const parsed = parseBundle(text, format)
  const problems: readonly Problem[] = parsed.ok ? [] : parsed.problems
  return [...problems, ...parsed.warnings].map(formatProblem).filter((text) => !GATEWAYS_WARNING.test(text))
}
