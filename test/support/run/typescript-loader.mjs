import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { transformSync } from 'rolldown/utils'

/** Tests have what looks like an import in quotes. */
const PRODUCT = /\/src\/(?!.*\.test\.ts$)/
/** An import of a file while the program runs. Types are gone from what is searched. */
const LATE_IMPORT = /\bimport\((["'])(\.[^"']+)\1\)/g

/** Node's hook: what it is to run for a module. */
export function load(url, context, nextLoad) {
  const { protocol, pathname } = new URL(url)
  if (protocol !== 'file:' || !pathname.endsWith('.ts')) return nextLoad(url, context)
  const path = fileURLToPath(url)
  const { code, map, errors } = transformSync(path, readFileSync(path, 'utf8'), { sourcemap: true, tsconfig: false })
  if (errors.length > 0) throw new SyntaxError(`${path}: ${errors.map(({ message }) => message).join('; ')}`)
  const comment = `//# sourceMappingURL=data:application/json;base64,${Buffer.from(JSON.stringify(map)).toString('base64')}`
  return { format: 'module', shortCircuit: true, source: `${PRODUCT.test(pathname) ? importingOnce(code, url) : code}\n${comment}` }
}

/**
 * Every start of an edge imports files that are loaded already, and in Node 20 a hook is asked about each of them, in a thread of its own:
 * half a millisecond of CPU time. What was imported once is kept instead.
 */
function importingOnce(code, url) {
  return code.replace(
    LATE_IMPORT,
    (call, _quote, file) => `((globalThis.lateImports ??= {})[${JSON.stringify(new URL(file, url).href)}] ??= ${call})`,
  )
}
