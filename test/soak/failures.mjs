/** The scenarios report for themselves; what they could not is told here. */
export class Failures {
  onTestModuleEnd(module) {
    for (const { message, stack } of module.errors()) process.stderr.write(`${stack ?? message}\n`)
  }

  onTestCaseResult(test) {
    for (const error of test.result().errors ?? []) process.stderr.write(`${test.name}: ${describe(error)}\n`)
  }

  onTestRunEnd(_modules, errors) {
    for (const error of errors) process.stderr.write(`${describe(error)}\n`)
  }

  onUserConsoleLog({ content }) {
    process.stdout.write(content)
  }
}

/** What a check found is a sentence; where anything else went wrong, the place matters. */
function describe({ name, message, stack }) {
  return name === 'SoakFailure' ? message : (stack ?? message)
}
