import { spawn, spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, matching, policy, unlimitedRule } from '../../support/bundles/bundles.ts'
import { describeWith } from '../../support/describe-with.ts'
import { ENTRY } from '../../support/service/cli.ts'
import { scratchDirectory } from '../../support/service/running.ts'

const BUNDLE = bundle(
  1,
  policy('api', {
    selector: { pathPrefix: '/api' },
    rules: [matching({ 'header:x-k': '*' }, bucketRule('per-key', ['header:x-k'], 5, 0.1)), unlimitedRule('rest', 'else')],
  }),
)

/** The example of the specification of the format. */
const FIVE_AT_ONCE = `
- name: five at once                       # CASES: a list; each case starts with full counters
  at: 2026-01-01T00:00:00Z                 # the default
  steps:
    - after: 0s
      request: { method: GET, uri: /api/x, host: h, headers: { x-k: a }, body: "" }
      times: 6
      expect: { status: [200, 200, 200, 200, 200, 429],
                reason: token_bucket_exceeded, policy: api, rule: per-key, headers: { Retry-After: 10 } }
`

describe('the files', () => {
  test('the program reads standard input, and its exit status says what came of it', async () => {
    const bundlePath = join(await scratchDirectory(), 'bundle.json')
    await writeFile(bundlePath, JSON.stringify(BUNDLE))
    const run = (cases: string) => spawnSync(process.execPath, [ENTRY, 'test', bundlePath, '-'], { input: cases, encoding: 'utf8' })
    expect(run(FIVE_AT_ONCE)).toMatchObject({ status: 0, stdout: '-\n  ok    five at once\n\n1 case: it passes\n', stderr: '' })
    expect(run(FIVE_AT_ONCE.replace('429', '200'))).toMatchObject({ status: 1, stderr: '' })
    expect(run('')).toMatchObject({ status: 1, stdout: '', stderr: '-: error: it is empty: expected a list of cases\n' })
  })
})

const hasScript = spawnSync('script', ['--version']).status === 0
describeWith(hasScript ? undefined : 'script (util-linux) is not installed', 'colours', () => {
  test.for<[string, Record<string, string>, boolean]>([
    ['on a terminal', {}, true],
    ['not with NO_COLOR', { NO_COLOR: '1' }, false],
  ])('%s', async ([, env, isColoured]) => {
    const directory = await scratchDirectory()
    await writeFile(join(directory, 'bundle.json'), JSON.stringify(BUNDLE))
    await writeFile(join(directory, 'cases.yaml'), FIVE_AT_ONCE)
    const line = `'${process.execPath}' '${ENTRY}' test bundle.json cases.yaml`
    const terminal = spawn('script', ['-qec', line, '/dev/null'], {
      cwd: directory,
      env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm', ...env },
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    let shown = ''
    for await (const chunk of terminal.stdout) shown += String(chunk)
    expect(shown).toContain('five at once')
    expect(shown.includes('\x1b[32mok  \x1b[0m')).toBe(isColoured)
  })
})
