/** What the ratios have to be at least. A ratio that could not be measured has no verdict. */
export function judge({ oneRule, rawNet, nodeHttp, nginx, twoThreads }) {
  return [
    target('one rule, edge : constant node:net', oneRule(rawNet), 0.8),
    target('one rule, edge : empty node:http', oneRule(nodeHttp), 1.6),
    target('one rule, edge : nginx limit_req', oneRule(nginx), 0.7),
    target('two threads : one, on the engine', twoThreads, 1.7),
  ]
}

function target(what, ratio, atLeast) {
  const verdict = ratio === undefined ? 'not measured' : ratio.median >= atLeast ? 'met' : 'missed'
  return { what, ratio: ratio?.median, atLeast, verdict }
}
