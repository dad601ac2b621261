import { expect, test } from 'vitest'
import { codeBlocks, markdownFiles, readText, tableRows, withoutCodeBlocks } from './markdown.ts'

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

/** Programs that are not there where tests run, or that take too long. */
const INLINE = /`((?:docker|skopeo|buildah|kubectl|gh|node --import) [^`]+)`/g

test.each(PAGES)(
  'every command within the text of %s is run by a test, too, or the text says that it was not tried or is done by hand',
  (file) => {
    const places = withoutCodeBlocks(readText(file))
      .split('\n\n')
      .flatMap((paragraph) => (paragraph.startsWith('|') ? paragraph.split('\n') : [paragraph]))
    const silent = places.filter((place) => !/\*not tried\*|by hand|\ba test\b/.test(place)).flatMap((place) => place.match(INLINE) ?? [])
    expect(silent).toEqual([])
  },
)

test('the examples of sizing are those of the tables in docs/performance.md', () => {
  const performance = readText('docs/performance.md')
  const cost = (head: string, row: RegExp): number[] => {
    const rows = tableRows(performance, [
      head,
      ...(head === 'Memory of' ? ['', 'a GiB holds'] : ['', 'one core does at most']),
      'Measured by',
    ])
    const [, cell] = rows.find(([name]) => row.test(name!))!
    return (cell!.match(/\d+(?:\.\d+)?/g) ?? []).map(Number)
  }
  const page = readText('docs/deployment.md').replace(/\s+/g, ' ')
  const [decision, exact, leased, event] = [
    /^a decision over HTTP/,
    /in Redis, `exact`$/,
    /^the same, `leased`/,
    /^an event of an LLM stream$/,
  ].map((row) => cost('CPU time of', row)) as [number[], number[], number[], number[]]
  const perSecond = (us: number): number => (5000 * us) / 1000
  expect(page).toContain(`${perSecond(exact[0]!)} ms of CPU time a second in the pod, and ${perSecond(exact[1]!)} ms in Redis`)
  expect(page).toContain(`${perSecond(decision[0]! + leased[0]!)} to ${perSecond(decision[1]! + leased[0]!)} ms in the pod`)
  const cores = event.map((us) => (60_000 * us) / 1e6)
  expect(page).toContain(`take ${cores.map((each) => each.toFixed(1)).join(' to ')} cores`)
  expect(Math.max(...cores)).toBeLessThan(4 / 2)
  const [idle, worker, load, stream] = [/^an idle instance/, /^each further worker/, /^a worker under load/, /^an open stream/].map((row) =>
    cost('Memory of', row),
  ) as [number[], number[], number[], number[]]
  const streams = Math.round((2000 * stream[1]!) / 1024)
  const workers = idle[1]! + 3 * worker[1]! + 4 * load[0]! + 64
  expect(page).toContain(`The streams take ${streams} MiB, four workers under load with their table of counters ${workers} MiB`)
  expect(page).toContain(`512 MiB, twice \`EDGE_BODY_MEMORY\`: ${streams + workers + 512} MiB`)
})

test('every file and image of a release is named with the version that is in package.json', () => {
  const { version } = JSON.parse(readText('package.json')) as { version: string }
  const named = ['SECURITY.md', 'README.md', ...markdownFiles('docs'), ...markdownFiles('deploy')].flatMap((file) =>
    Array.from(
      readText(file).matchAll(/\bedge(?:-decision-service|-image|-chart)?[-_:](\d+\.\d+\.\d+[-\w.]*?)(?=[\s`"_]|\.\w)/g),
      ([text, found]) => ({ file, text, found }),
    ),
  )
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter(({ found }) => found !== version)).toEqual([])
})
