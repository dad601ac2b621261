import { homedir } from 'node:os'
import { join } from 'node:path'
import { readText } from '../docs/markdown.ts'

/** Where `scripts/install-test-parts.sh` puts a program. Without a version, it is the one that the script of this part names. */
export function testPart(name: string, version = versionOf(name)): string {
  const cache = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache')
  return join(cache, 'edge-test-parts', `${name}-${version}`, name)
}

export function versionOf(name: string): string {
  return /^version=(.*)$/m.exec(readText(`scripts/test-parts/${name}.sh`))![1]!
}
