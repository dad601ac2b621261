import { appendFile, link, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { until } from '../../test/support/until.ts'
import { ChangeWatch } from './change-watch.ts'

const isLinux = process.platform === 'linux'

describe.runIf(isLinux)('a change is told of', () => {
  test('when the file is written to, also through another name', async () => {
    const { path, directory, changes } = await watched()
    const other = join(await scratchDirectory(), 'other')
    await link(path, other)
    await changes.expectAfter(() => appendFile(path, 'more'))
    await changes.expectAfter(() => appendFile(other, 'more'))
    await changes.expectAfter(() => rm(join(directory, 'file')))
  })

  test('when another file takes its name', async () => {
    const { path, changes } = await watched()
    await changes.expectAfter(async () => {
      await writeFile(`${path}.new`, 'other')
      await rename(`${path}.new`, path)
    })
  })

  test('when a link on the way leads elsewhere, as Kubernetes and deployments swap them', async () => {
    const top = await scratchDirectory()
    const mounted = join(top, 'mounted')
    for (const version of ['..1', '..2']) {
      await mkdir(join(mounted, version), { recursive: true })
      await writeFile(join(mounted, version, 'file'), version)
    }
    await symlink('..1', join(mounted, '..data'))
    await symlink('..data/file', join(mounted, 'file'))
    await mkdir(join(top, 'links'))
    await symlink('../mounted', join(top, 'links', 'current'))
    const changes = await watching(join(top, 'links', 'current', 'file'))
    await changes.expectAfter(async () => {
      await symlink('..2', join(mounted, '..data_tmp'))
      await rename(join(mounted, '..data_tmp'), join(mounted, '..data'))
    })
    await changes.expectAfter(() => appendFile(join(mounted, '..1', 'file'), 'more'))
    await changes.expectAfter(async () => {
      await symlink('../other', join(top, 'links', 'next'))
      await rename(join(top, 'links', 'next'), join(top, 'links', 'current'))
    })
  })
})

test('a path that leads nowhere, or in a circle, is not watched', async () => {
  const directory = await scratchDirectory()
  expect(await watch(join(directory, 'missing'))).toBe(false)
  await symlink('circle', join(directory, 'circle'))
  expect(await watch(join(directory, 'circle'))).toBe(false)
  await writeFile(join(directory, 'file'), '')
  expect(await watch(join(directory, 'file', 'below'))).toBe(false)
})

test.runIf(isLinux)('a file of a disk that others may change unseen is not watched', async () => {
  expect(await watch('/proc/self/status')).toBe(false)
})

test('a closed watch does not start again', async () => {
  const path = join(await scratchDirectory(), 'file')
  await writeFile(path, '')
  const changes = new ChangeWatch(path, () => {})
  changes.close()
  expect(await changes.start()).toBe(false)
})

function watch(path: string): Promise<boolean> {
  const changes = new ChangeWatch(path, () => {})
  onTestFinished(() => changes.close())
  return changes.start()
}

async function watched() {
  const directory = await scratchDirectory()
  const path = join(directory, 'file')
  await writeFile(path, 'content')
  return { directory, path, changes: await watching(path) }
}

async function watching(path: string) {
  let told = 0
  const changes = new ChangeWatch(path, () => told++)
  onTestFinished(() => changes.close())
  expect(await changes.start()).toBe(true)
  return {
    async expectAfter(change: () => Promise<unknown>): Promise<void> {
      const before = told
      await change()
      await until(() => told > before)
    },
  }
}
