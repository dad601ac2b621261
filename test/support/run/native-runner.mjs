import { pathToFileURL } from 'node:url'
import { TestRunner } from 'vitest'

let imports = 0

/** Vitest's runner, except that Node loads the modules (`typescript.mjs`) and not Vite: none of them needs more than to lose its types. */
export default class NativeRunner extends TestRunner {
  constructor(...config) {
    super(...config)
    // Vite's knows no line of these modules; Node's does.
    delete Error.prepareStackTrace
  }

  /** Setup files and tests run each time, and what they import is loaded once. */
  importFile(path) {
    return import(`${pathToFileURL(path).href}?${imports++}`)
  }
}
