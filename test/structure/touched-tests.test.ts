import { join } from 'node:path'
import { expect, test } from 'vitest'
import { linksIn, TestGraph } from '../support/run/touched-tests.ts'

const FILES: Readonly<Record<string, string>> = {
  'src/cli/main.ts': "import { a } from '../a.ts'",
  'src/a.ts': '',
  'src/b.ts': "import type { A } from './a.ts'",
  'src/a.test.ts': "import { a } from './a.ts'",
  'src/b.test.ts': "import { b } from './b.ts'\nconst later = () => import('../test/support/threads.ts')",
  'test/support/cli.ts': "export const ENTRY = new URL('../../program/edge.js', import.meta.url)",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a file
  'test/support/threads.ts': 'new Worker(new URL(`./${name}.mjs`, import.meta.url))',
  'test/support/counting.mjs': "import { a } from '../../dist/a.js'",
  'test/e2e/start.test.ts': "import { ENTRY } from '../support/cli.ts'",
  'test/docs/links.test.ts': "const ROOT = new URL('../..', import.meta.url)",
}

const graph = new TestGraph(new Map(Object.entries(FILES).map(([file, text]) => [file, linksIn(file, text, Object.keys(FILES))])))
const touchedBy = (...changed: string[]) =>
  graph.touchedBy(changed).map(({ file, distance, needsBuild }) => `${distance} ${file}${needsBuild ? ' after a build' : ''}`)

test('a change touches the tests that import it, through others too, the nearest first', () => {
  expect(touchedBy('src/b.ts')).toEqual(['1 src/b.test.ts after a build'])
  expect(touchedBy('src/a.ts')).toEqual(['1 src/a.test.ts', '2 src/b.test.ts after a build', '3 test/e2e/start.test.ts after a build'])
})

test('a change of the tests alone needs no build', () => {
  expect(touchedBy('src/b.test.ts')).toEqual(['0 src/b.test.ts'])
  expect(touchedBy('test/support/cli.ts')).toEqual(['1 test/e2e/start.test.ts'])
  expect(touchedBy('test/support/counting.mjs')).toEqual(['2 src/b.test.ts'])
})

test('what lies outside of the code touches the tests that read its folder', () => {
  expect(touchedBy('docs/a.md')).toEqual(['1 test/docs/links.test.ts'])
  expect(touchedBy('src/unknown.ts')).toEqual([])
})

test('in this project, the bucket touches its own test first, and one that starts the program after a build', () => {
  const touched = TestGraph.of(join(import.meta.dirname, '../..')).touchedBy(['src/limiter/algorithms/bucket.ts'])
  expect(touched.find(({ file }) => file === 'src/limiter/algorithms/bucket.test.ts')).toMatchObject({ distance: 1, needsBuild: false })
  expect(touched.find(({ file }) => file === 'test/e2e/cli/usage.test.ts')).toMatchObject({ needsBuild: true })
})
