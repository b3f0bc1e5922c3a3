// Experiments: what became of the users who saw each variant, and whether one is ahead.

import {bdi, count, el} from './elements.js'
import {amountIn, identifier, percent} from './numbers.js'
import {number, table} from './tables.js'

const none = 'No experiment is configured: catalog.experiments lists variants with their weights.'

/// A card for each experiment, as `GET /v1/experiments` answers.
export const experimentCards = (experiments, currency) => experiments.length === 0
  ? [el('section', {class: 'card', 'aria-label': 'Experiments'}, table('Experiments', [], [], none))]
  : experiments.map((experiment) => card(experiment, currency))

function card(experiment, currency) {
  const name = `Experiment ${experiment.name}${experiment.running ? '' : ', no longer in the catalog'}`
  return el('section', {class: 'card', 'aria-label': name}, verdict(experiment),
    table(name, ['Variant', 'Saw it', 'Paid', 'Conversion', currency ? `Revenue in ${currency}` : 'Revenue'],
      experiment.variants.map((variant) => row(variant, currency))))
}

const row = (variant, currency) => [
  identifier(variant.name), number(variant.exposed), number(variant.paid),
  variant.conversion === null ? '' : [number(variant.conversion, percent(variant.conversion)),
    el('span', {class: 'soft'}, `of ${count(variant.exposed - variant.paid_before)} who had not paid`),
    el('span', {class: 'soft'}, `${percent(variant.conversion_low)} to ${percent(variant.conversion_high)}`)],
  amountIn(variant.money, 'revenue', currency),
]

function verdict({variants, ahead, sample_ratio_mismatch: isStrange}) {
  if (isStrange) {
    return el('p', {class: 'notice warn'}, 'Users saw the variants in other shares than the weights say. Find out why ' +
      'before you trust these figures.')
  }
  const best = variants.find((variant) => variant.name === ahead)
  if (!best) return el('p', {class: 'notice'}, 'Too early to say which variant is ahead.')
  const others = variants.filter((one) => one !== best && one.conversion !== null)
    .map((one) => `${percent(one.conversion)} of ${one.name}`)
  return el('p', {class: 'notice good'}, bdi(best.name), ` is ahead: ${percent(best.conversion)} paid, against `,
    `${others.join(', ')}.`)
}
