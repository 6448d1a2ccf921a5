//! Reads the standard variables, as far as the libraries do not read them themselves.

/// Where traces go, and what the variables say about them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Collector {
    /// The collector's host and port, without what else its URL may hold.
    pub(super) place: String,
    /// Whether it is spoken to without TLS.
    pub(super) is_plain: bool,
    /// Why the sampler that was asked for is not the one that samples.
    pub(super) sampler_problem: Option<String>,
    /// Whether the variables name the service.
    pub(super) names_service: bool,
    /// The most spans that wait to be sent.
    pub(super) most_waiting: usize,
}

/// The most spans that wait to be sent where the variables do not say.
const MOST_WAITING: usize = 2048;

const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

/// The collector that the variables name; none where they name none, or say that there are to be
/// no traces.
pub(super) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Collector>, String> {
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let is = |name: &str, word: &str| {
        set(name).is_some_and(|value| value.trim().eq_ignore_ascii_case(word))
    };
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return Ok(None);
    }
    let endpoint =
        set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| set("OTEL_EXPORTER_OTLP_ENDPOINT"));
    let Some(endpoint) = endpoint else { return Ok(None) };
    let place = place(&endpoint).ok_or("no traces are sent: the endpoint is not a URL")?;
    let protocol = set("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        .or_else(|| set("OTEL_EXPORTER_OTLP_PROTOCOL"))
        .filter(|protocol| protocol.trim() != "grpc");
    if let Some(protocol) = protocol {
        return Err(format!(
            "no traces are sent to {place}: the protocol is {protocol:?}; expected grpc"
        ));
    }
    let in_attributes = |attributes: String| {
        attributes.split(',').any(|pair| pair.trim_start().starts_with("service.name="))
    };
    let scheme = endpoint.trim_start().split_once("://").map(|(scheme, _)| scheme);
    Ok(Some(Collector {
        place,
        is_plain: scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("http")),
        sampler_problem: sampler_problem(
            set("OTEL_TRACES_SAMPLER"),
            set("OTEL_TRACES_SAMPLER_ARG"),
        ),
        names_service: set("OTEL_SERVICE_NAME").is_some()
            || set("OTEL_RESOURCE_ATTRIBUTES").is_some_and(in_attributes),
        most_waiting: set("OTEL_BSP_MAX_QUEUE_SIZE")
            .and_then(|most| most.trim().parse().ok())
            .unwrap_or(MOST_WAITING),
    }))
}

/// The host and port of a URL: a user and a password are nobody's business.
fn place(endpoint: &str) -> Option<String> {
    let uri: axum::http::Uri = endpoint.trim().parse().ok()?;
    let authority = uri.authority()?;
    let host = authority.host();
    Some(match authority.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

fn sampler_problem(sampler: Option<String>, ratio: Option<String>) -> Option<String> {
    let sampler = sampler?;
    if !SAMPLERS.contains(&sampler.as_str()) {
        let known = SAMPLERS.join(", ");
        return Some(format!("it is {sampler:?}; expected one of {known}; every trace is sampled"));
    }
    if !sampler.ends_with("ratio") {
        return None;
    }
    let number = ratio.as_deref().and_then(|ratio| ratio.parse::<f64>().ok());
    match number.is_some_and(|number| (0.0..=1.0).contains(&number)) {
        true => None,
        false => Some(format!(
            "OTEL_TRACES_SAMPLER_ARG is {:?}; expected a number from 0 to 1; every trace is sampled",
            ratio.unwrap_or_default()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector(variables: &[(&str, &str)]) -> Result<Option<Collector>, String> {
        let found = |name: &str| {
            let mut all = variables.iter();
            all.find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        read(&found)
    }

    const THERE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");

    #[test]
    fn without_an_endpoint_there_are_no_traces() {
        for variables in [
            &[][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[("OTEL_SERVICE_NAME", "x"), ("OTEL_TRACES_SAMPLER", "always_on")],
            &[THERE, ("OTEL_SDK_DISABLED", "TRUE")],
            &[THERE, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert_eq!(collector(variables), Ok(None), "{variables:?}");
        }
    }

    #[test]
    fn the_endpoint_of_traces_goes_first_and_its_password_is_not_told() {
        let secret = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://u:hunter2@other:1/x?k=v");
        let found = collector(&[THERE, secret]).unwrap().unwrap();
        assert_eq!((found.place.as_str(), found.is_plain), ("other:1", false));
        let found = collector(&[THERE]).unwrap().unwrap();
        assert_eq!((found.place.as_str(), found.is_plain), ("collector:4317", true));
        let wrong = collector(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "hunter2 :// x")]).unwrap_err();
        assert!(!wrong.contains("hunter2"), "{wrong}");
    }

    #[test]
    fn what_cannot_be_followed_is_told() {
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        assert!(collector(&[THERE, http]).unwrap_err().contains("expected grpc"));
        let problem = |sampler: &str, ratio: &str| {
            let variables =
                [THERE, ("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", ratio)];
            collector(&variables).unwrap().unwrap().sampler_problem
        };
        assert_eq!(problem("parentbased_traceidratio", "0.25"), None);
        assert_eq!(problem("always_off", "nonsense"), None);
        for (sampler, ratio) in [("sometimes", ""), ("traceidratio", ""), ("traceidratio", "1.5")] {
            assert!(problem(sampler, ratio).is_some(), "{sampler} {ratio}");
        }
    }

    #[test]
    fn the_service_may_be_named_in_either_way() {
        let named =
            |name, value| collector(&[THERE, (name, value)]).unwrap().unwrap().names_service;
        assert!(named("OTEL_SERVICE_NAME", "edge"));
        assert!(named("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name=edge"));
        assert!(!named("OTEL_RESOURCE_ATTRIBUTES", "deployment=x"));
    }

    #[test]
    fn how_many_spans_wait_is_bounded_whatever_the_variables_say() {
        let most = |value| collector(&[THERE, ("OTEL_BSP_MAX_QUEUE_SIZE", value)]).unwrap();
        assert_eq!(most("7").unwrap().most_waiting, 7);
        assert_eq!(most("many").unwrap().most_waiting, MOST_WAITING);
    }
}
