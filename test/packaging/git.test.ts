import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeWithRegistry, succeed } from '../support/packaging/npm.ts'
import { emptyProject, sourceCopy } from '../support/packaging/source-copy.ts'
import { thisTest } from '../support/service/running.ts'

const AUTHOR = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false']

describeWithRegistry('an installation from git', () => {
  test('builds the package, also where the project leaves development dependencies out', { timeout: 600_000 }, async () => {
    const source = await sourceCopy(thisTest)
    await succeed(source, 'git', 'init', '-q')
    await succeed(source, 'git', 'add', '--all')
    await succeed(source, 'git', ...AUTHOR, 'commit', '-q', '-m', 'all')
    const project = await emptyProject(thisTest)
    // What npm 12 asks for; earlier ones take it for granted.
    await succeed(project, 'npm', 'install', '--allow-git=all', '--omit=dev', `git+file://${source}`)
    expect(await succeed(project, join(project, 'node_modules/.bin/edge'), 'validate', join(source, 'examples/quickstart.json'))).toMatch(
      /: ok\b/,
    )
  })
})
