//! Containers of `parallel-snapshot` keyspaces.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quorate::ObjectKind;

use crate::context::Context;
use crate::error;
use crate::handle::Handle;
use crate::values::bytes;

/// All objects whose keys have one tag in braces: they have a common preferred site.
#[pyclass(frozen, module = "quorate._native")]
pub(crate) struct Container(Handle<quorate::Container>);

impl Container {
    pub(crate) fn new(container: quorate::Container, context: Context) -> Self {
        Container(Handle::new(container, context))
    }
}

#[pymethods]
impl Container {
    /// The tag that its objects' keys have in braces.
    #[getter]
    fn tag(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        Ok(bytes(py, self.0.get()?.0.tag()))
    }

    /// The name of its preferred site, as the nearest site knows it.
    fn preferred_site(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (container, context) = self.0.get()?;
        let container = container.clone();
        context.run(py, async move { container.preferred_site().await }, |py, site| site.into_py_any(py))
    }

    /// The names of the sites that hold the values of its objects.
    fn replica_sites(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (container, context) = self.0.get()?;
        let container = container.clone();
        context.run(py, async move { container.replica_sites().await }, |py, sites| sites.into_py_any(py))
    }

    /// Creates it with this preferred site, or moves it there; with `replicated_at` only those sites hold its objects from then on.
    #[pyo3(signature = (site, replicated_at=None))]
    fn place_at(
        &self,
        py: Python<'_>,
        site: String,
        replicated_at: Option<Vec<String>>,
    ) -> PyResult<Py<PyAny>> {
        let (container, context) = self.0.get()?;
        let placement = container.place(&site);
        let placement = match replicated_at {
            Some(sites) => placement.replicated_at(sites),
            None => placement,
        };
        context.run(py, async move { placement.await }, |py, ()| Ok(py.None()))
    }

    /// Destroys it: its preferred site is that which follows from its name. Its objects stay.
    fn destroy(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (container, context) = self.0.get()?;
        let container = container.clone();
        context.run(py, async move { container.destroy().await }, |py, ()| Ok(py.None()))
    }

    /// A new id for an object: a key that nobody else is given. The kind is `register` or `set`.
    #[pyo3(signature = (kind="register"))]
    fn new_id(&self, py: Python<'_>, kind: &str) -> PyResult<Py<PyBytes>> {
        let kind = match kind {
            "register" => ObjectKind::Register,
            "set" => ObjectKind::Set,
            _ => {
                return Err(error::invalid(
                    py,
                    format!("an object is a register or a set, and not a {kind:?}"),
                ));
            }
        };
        let id = self.0.get()?.0.new_id(kind).map_err(|failure| error::exception(py, &failure))?;
        Ok(bytes(py, &id))
    }
}
