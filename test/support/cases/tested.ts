import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { command, type Said } from '../service/command.ts'
import { scratchDirectory } from '../service/running.ts'

/** What `edge test` says to these cases (as data, or as text), on this bundle. The files are `bundle.json` and `cases.yaml`, named without their directory. */
export async function tested(bundle: object | string, cases: unknown, ...flags: string[]): Promise<Said> {
  const directory = await scratchDirectory()
  const [bundlePath, casesPath] = [join(directory, 'bundle.json'), join(directory, 'cases.yaml')]
  await writeFile(bundlePath, textOf(bundle))
  await writeFile(casesPath, textOf(cases))
  const { status, stdout, stderr } = await command('test', ...flags, bundlePath, casesPath)
  const shorten = (text: string): string => text.replaceAll(`${directory}/`, '')
  return { status, stdout: shorten(stdout), stderr: shorten(stderr) }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
