import { existsSync } from 'node:fs'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Owner, scratchDirectory } from '../service/running.ts'
import { succeed } from './npm.ts'

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** What git would commit of this checkout, in a folder of its own: without node_modules/ and dist/. */
export async function sourceCopy(owner: Owner): Promise<string> {
  const copy = await scratchDirectory(owner)
  const files = (await succeed(ROOT, 'git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard')).split('\0')
  for (const file of new Set(files)) {
    // git also lists what was deleted and not yet committed.
    if (file !== '' && existsSync(join(ROOT, file))) await copyFile(join(ROOT, file), join(copy, file))
  }
  return copy
}

async function copyFile(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true })
  await cp(from, to)
}

/** A project that has nothing installed. */
export async function emptyProject(owner: Owner): Promise<string> {
  const project = await scratchDirectory(owner)
  await writeFile(join(project, 'package.json'), '{ "name": "project", "private": true, "type": "module" }\n')
  return project
}
