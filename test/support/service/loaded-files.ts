import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

const PROGRAM = new URL('../../../program/', import.meta.url)
/** What the program's own loader calls its files, wherever they are. */
const OWN_NAME = 'edge/'

/** For each thread of a program that ran with this folder as NODE_V8_COVERAGE: the files of `program/` that it loaded, as V8 noted them. */
export async function loadedFiles(directory: string): Promise<string[][]> {
  const reports = await Promise.all((await readdir(directory)).map((name) => readFile(join(directory, name), 'utf8')))
  return reports.map((text) => {
    const urls = (JSON.parse(text) as { result: readonly { url: string }[] }).result.map(({ url }) => url)
    return [PROGRAM.href, OWN_NAME].flatMap((start) => urls.filter((url) => url.startsWith(start)).map((url) => url.slice(start.length)))
  })
}
