// `npm ci`, `npm install`, `npm pack` and an installation from git run this: dist/ is built wherever it can be.
import { spawnSync } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))

const PACKING = ['pack', 'publish']
// Of this folder alone: a `tsc` of the system or of a folder above may be of another version.
const COMPILER = 'node_modules/typescript/bin/tsc'

if (!existsSync('src')) {
  // What npm has unpacked is built already, and has no source.
} else if (existsSync(COMPILER)) {
  build()
} else if (existsSync('dist')) {
  process.stderr.write('edge: TypeScript is not installed, so dist/ is left as it is.\n')
} else {
  process.stderr.write(
    'edge: not built: TypeScript is not installed, and there is no dist/.\n' +
      'To build, then drop what only development needs: npm ci && npm prune --omit=dev\n',
  )
  // A package without dist/ could be installed and never run.
  if (PACKING.includes(process.env.npm_command)) process.exitCode = 1
}

function build() {
  // What a deleted source file has left there would be packed.
  rmSync('dist', { recursive: true, force: true })
  const { status, error } = spawnSync(process.execPath, [COMPILER, '-p', 'tsconfig.build.json'], { stdio: 'inherit' })
  if (error) throw error
  process.exitCode = status ?? 1
}
