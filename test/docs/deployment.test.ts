import { expect, test } from 'vitest'
import { codeBlocks, readText } from './markdown.ts'

/** Which test runs the commands that begin so. */
const RUN_BY: readonly (readonly [begins: RegExp, test: string])[] = [
  [/^npm pack\nnpm install /, 'test/packaging/tarball.test.ts'],
  [/^npm install git\+https:/, 'test/packaging/git.test.ts'],
  [/^npm ci && npm prune --omit=dev$/m, 'test/packaging/clone.test.ts'],
  [/^(?:EDGE_\w+=\S+ )+node program\/edge\.js (?:serve|health)/, 'test/docs/deployment.slow.test.ts'],
  [/^kill -TERM \$edge/, 'test/docs/deployment.slow.test.ts'],
  [/^release\/image\.sh /, 'test/packaging/image.test.ts'],
  [/^helm /, 'test/packaging/deployment.test.ts'],
]

const PAGES = ['docs/deployment.md', 'docs/installation.md']

test.each(PAGES)('every command of %s is run by a test, or the text above it says that it was not tried', (file) => {
  const page = readText(file)
  const untried = codeBlocks(page, 'sh').filter((block) => {
    const above = page
      .slice(0, page.indexOf(block))
      .replace(/(?:\n```sh\n)$/, '')
      .split('\n\n')
      .at(-1)!
    return !RUN_BY.some(([begins]) => begins.test(block)) && !above.includes('*not tried*')
  })
  expect(untried).toEqual([])
})

test('every test that is said to run them is there, and so is what it runs', () => {
  const blocks = PAGES.flatMap((file) => codeBlocks(readText(file), 'sh'))
  expect(RUN_BY.filter(([begins, file]) => !blocks.some((block) => begins.test(block)) || readText(file) === '')).toEqual([])
})
